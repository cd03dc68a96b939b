//! Resources of ended sessions. The test runs alone in its process, whose descriptors it counts.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::time::Duration;

use mctcp_live::{Accepted, Config, ListenerConfig, MctcpListener, MctcpStream, PathSpec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn session(finishes: bool) {
    let at = [1, 2, 3, 4].map(|last| ([127, 0, 0, last], 0).into());
    let mut listener = MctcpListener::bind(&at, ListenerConfig::default()).unwrap();
    let paths: Vec<_> = listener.addresses().iter().map(|at| PathSpec::from(*at)).collect();
    let mut client = MctcpStream::connect(paths, "", Config::default()).await.unwrap();
    let Accepted::Session(mut server) = listener.accept().await.unwrap() else {
        panic!("expected a session")
    };
    client.join_now();
    client.write_all(&vec![1; 200_000]).await.unwrap();
    if finishes {
        client.shutdown().await.unwrap();
        let mut all = Vec::new();
        server.read_to_end(&mut all).await.unwrap();
        server.shutdown().await.unwrap();
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn dropped_streams_leave_no_task_and_no_descriptor() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let before = descriptors();
    let metrics = runtime.metrics();
    let all = async {
        for finishes in [true, false, true, false, true, false] {
            session(finishes).await;
        }
        while metrics.num_alive_tasks() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), all).await }).unwrap();
    assert_eq!(descriptors(), before);
}
