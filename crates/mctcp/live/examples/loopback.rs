//! Throughput and latency of MCTCP, TCP and the kernel's Multipath TCP, measured by the same loop.
//! For the benchmark: prints one line of JSON.
//!
//! `receive KIND CERTIFICATE` prints its address and receives one transfer; `answer` answers
//! requests until it is killed. `send KIND CERTIFICATE SECONDS ADDRESS...` sends, `ask` requests 1
//! KiB repeatedly, `open` opens a session for each request, `burst` opens COUNT sessions within 20
//! ms that stay open. KIND is tcp, mptcp, mctcp, mctcp-tls or mctcp-key.
#![expect(clippy::print_stdout, reason = "the result goes to standard output")]

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mctcp_live::{
    Accepted, Config, Encryption, ListenerConfig, MctcpListener, MctcpStream, PathSpec,
};
use mctcp_proxy::tls::{ClientTls, ServerTls};
use sys::socket::{TcpOptions, connect, listen};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Common interface of both streams.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Size of a request and of its answer in bytes.
const MESSAGE_BYTES: usize = 1024;
/// The key of mctcp-key.
const PSK: &[u8; 32] = b"0123456789abcdef0123456789abcdef";
/// Duration of the start of a burst.
const BURST_DURATION: Duration = Duration::from_millis(20);
/// Addresses of the loopback device that MCTCP uses.
const ADDRESS_COUNT: u8 = 4;

#[tokio::main]
async fn main() -> Outcome<()> {
    // Runs on a worker thread, as servers do; the main thread is not one.
    tokio::spawn(run()).await?
}

async fn run() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["receive", kind, certificate] => {
            let mut stream = Listener::open(kind, certificate)?.accept().await?;
            receive(&mut stream).await
        }
        ["answer", kind, certificate] => {
            let mut listener = Listener::open(kind, certificate)?;
            loop {
                let stream = listener.accept().await?;
                tokio::spawn(answer(stream));
            }
        }
        ["send", kind, certificate, seconds, ref to @ ..] => {
            let config = config(kind, certificate)?;
            let stream = dial(kind, to, &config).await?;
            send(stream, seconds.parse()?).await
        }
        ["ask", kind, certificate, count, ref to @ ..] => {
            let config = config(kind, certificate)?;
            ask(dial(kind, to, &config).await?, count.parse()?).await
        }
        ["open", kind, certificate, count, ref to @ ..] => {
            open(kind, to, &config(kind, certificate)?, count.parse()?).await
        }
        ["burst", kind, certificate, count, ref to @ ..] => {
            burst(kind, to, &config(kind, certificate)?, count.parse()?).await
        }
        _ => Err("see the head of the file".into()),
    }
}

enum Listener {
    Kernel(TcpListener),
    Mctcp(MctcpListener),
}

impl Listener {
    fn open(kind: &str, certificate: &str) -> Outcome<Self> {
        let (this, addresses) = if kind.starts_with("mctcp") {
            let encryption = (kind == "mctcp-tls").then(|| server_tls(certificate)).transpose()?;
            let session = Config { psk: key(kind), ..Config::default() };
            let config = ListenerConfig { session, encryption, ..Default::default() };
            let at = (1..=ADDRESS_COUNT).map(|last| SocketAddr::from(([127, 0, 0, last], 0)));
            let listener = MctcpListener::bind(&at.collect::<Vec<_>>(), config)?;
            let addresses = listener.addresses().to_vec();
            (Self::Mctcp(listener), addresses)
        } else {
            let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            let (socket, at) = listen(any, options(kind))?;
            let listener = TcpListener::from_std(socket.into())?;
            let address = SocketAddr::from(([127, 0, 0, 1], at.port()));
            (Self::Kernel(listener), vec![address])
        };
        let quoted: Vec<String> = addresses.iter().map(|at| format!("\"{at}\"")).collect();
        println!("{{\"addresses\":[{}]}}", quoted.join(","));
        Ok(this)
    }

    async fn accept(&mut self) -> Outcome<Box<dyn Stream>> {
        match self {
            Self::Kernel(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
            Self::Mctcp(listener) => match listener.accept().await? {
                Accepted::Session(stream) => Ok(Box::new(stream)),
                Accepted::Plain(_) => Err("expected a session".into()),
            },
        }
    }
}

fn options(kind: &str) -> TcpOptions<'static> {
    TcpOptions { no_delay: true, multipath: kind == "mptcp", ..Default::default() }
}

async fn dial(kind: &str, to: &[&str], config: &Config) -> Outcome<Box<dyn Stream>> {
    let to: Vec<SocketAddr> = to.iter().map(|at| at.parse()).collect::<Result<_, _>>()?;
    if kind.starts_with("mctcp") {
        let paths = to.into_iter().map(PathSpec::from);
        return Ok(Box::new(MctcpStream::connect(paths, "", config.clone()).await?));
    }
    let first = *to.first().ok_or("no address")?;
    let socket = connect(IpAddr::V4(Ipv4Addr::LOCALHOST), first, options(kind))?;
    let stream = TcpStream::from_std(socket.into())?;
    stream.writable().await?;
    Ok(Box::new(stream))
}

async fn send(mut stream: Box<dyn Stream>, seconds: f64) -> Outcome<()> {
    let piece = vec![7; 128 << 10];
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        stream.write_all(&piece).await?;
    }
    stream.shutdown().await?;
    // End of the peer's stream: all data were received.
    stream.read_to_end(&mut Vec::new()).await?;
    println!("{{}}");
    Ok(())
}

async fn receive(stream: &mut Box<dyn Stream>) -> Outcome<()> {
    let mut piece = vec![0; 128 << 10];
    let (mut bytes, mut began) = (0_u64, None);
    let mut ended = Instant::now();
    loop {
        let count = stream.read(&mut piece).await?;
        if count == 0 {
            break;
        }
        bytes += count as u64;
        ended = Instant::now();
        began.get_or_insert(ended);
    }
    stream.shutdown().await?;
    let seconds = began.map_or(0.0, |began| ended.duration_since(began).as_secs_f64());
    println!("{{\"bytes\":{bytes},\"seconds\":{seconds}}}");
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok(())
}

async fn answer(mut stream: Box<dyn Stream>) {
    let mut message = [0; MESSAGE_BYTES];
    while stream.read_exact(&mut message).await.is_ok() {
        if stream.write_all(&message).await.is_err() {
            return;
        }
    }
}

/// Prints the median of the request times in microseconds.
fn print_median(mut nanos: Vec<u128>) {
    nanos.sort_unstable();
    println!("{{\"micros\":{}}}", nanos[nanos.len() / 2] as f64 / 1000.0);
}

/// Sends a request and reads its answer.
async fn request(stream: &mut Box<dyn Stream>) -> Outcome<()> {
    let mut message = [1; MESSAGE_BYTES];
    stream.write_all(&message).await?;
    stream.read_exact(&mut message).await?;
    Ok(())
}

async fn ask(mut stream: Box<dyn Stream>, count: usize) -> Outcome<()> {
    let mut nanos = Vec::with_capacity(count);
    for _ in 0..count {
        let began = Instant::now();
        request(&mut stream).await?;
        nanos.push(began.elapsed().as_nanos());
    }
    print_median(nanos);
    Ok(())
}

async fn open(kind: &str, to: &[&str], config: &Config, count: usize) -> Outcome<()> {
    let mut nanos = Vec::with_capacity(count);
    for _ in 0..count {
        let began = Instant::now();
        let mut stream = dial(kind, to, config).await?;
        request(&mut stream).await?;
        nanos.push(began.elapsed().as_nanos());
        stream.shutdown().await?;
    }
    print_median(nanos);
    Ok(())
}

/// Opens `count` sessions within [`BURST_DURATION`], sends one request on each, and closes them
/// when all have an answer or have failed.
async fn burst(kind: &str, to: &[&str], config: &Config, count: u32) -> Outcome<()> {
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for number in 0..count {
        let (kind, config) = (kind.to_owned(), config.clone());
        let to: Vec<String> = to.iter().map(|&at| at.to_owned()).collect();
        tasks.spawn(async move {
            tokio::time::sleep(BURST_DURATION * number / count).await;
            let began = Instant::now();
            let to: Vec<&str> = to.iter().map(String::as_str).collect();
            let mut stream = dial(&kind, &to, &config).await?;
            request(&mut stream).await?;
            Outcome::Ok((stream, began.elapsed()))
        });
    }
    let (mut open, mut failed) = (Vec::new(), 0);
    while let Some(done) = tasks.join_next().await {
        match done? {
            Ok(opened) => open.push(opened),
            Err(error) => {
                eprintln!("{error}");
                failed += 1;
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let mut times: Vec<f64> = open.iter().map(|(_, time)| time.as_secs_f64() * 1e6).collect();
    times.sort_unstable_by(f64::total_cmp);
    let quantile = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or(0.0);
    println!(
        "{{\"open\":{},\"failed\":{failed},\"p50_micros\":{:.0},\"p99_micros\":{:.0},\
         \"seconds\":{seconds:.3}}}",
        times.len(),
        quantile(50),
        quantile(99),
    );
    for (stream, _) in &mut open {
        stream.shutdown().await?;
    }
    Ok(())
}

fn key(kind: &str) -> Option<Arc<[u8]>> {
    (kind == "mctcp-key").then(|| Arc::from(&PSK[..]))
}

fn server_tls(certificate: &str) -> Outcome<Arc<dyn Encryption>> {
    let made = rcgen::generate_simple_self_signed(vec!["loopback".to_owned()])?;
    std::fs::write(certificate, made.cert.der())?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let chain = vec![made.cert.der().clone()];
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    Ok(Arc::new(ServerTls(Arc::new(config))))
}

fn config(kind: &str, certificate: &str) -> Outcome<Config> {
    let mut config = Config { psk: key(kind), ..Config::default() };
    if kind == "mctcp-tls" {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(std::fs::read(certificate)?))?;
        let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = "loopback".try_into()?;
        config.encryption = Some(Arc::new(ClientTls { config: Arc::new(tls), name }));
    }
    Ok(config)
}
