//! Measures the goodput and the CPU cost of a built-in bulk TCP flow over a veth pair between two
//! network namespaces, with super-packets: the maximum load that the built-in flows can generate.
//!
//! `flow_veth [SECONDS] [STREAMS] [CONTROL]`; prints `Gbit/s` and `cores`. Needs root, or
//! `unshare -Urn`.
#![expect(clippy::print_stdout, reason = "the output of a measurement")]

use std::error::Error;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use base::{FlowId, NodeId, Span, Time};
use emu::clock::LabClock;
use emu::flow::{FlowEngine, FlowOptions, FlowSpec};
use lab::plan::{Family, Flow, Tcp, Traffic};
use sys::namespace::{self, Kinds};
use sys::netlink::{self, Batch, LinkSettings, Veth};

const ADDRESSES: [[u8; 4]; 2] = [[10, 9, 0, 1], [10, 9, 0, 2]];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let streams: u32 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let control = arguments.next().unwrap_or_else(|| "cubic".to_owned());
    let netns = [namespace()?, namespace()?];
    join(&netns)?;
    let tcp = Tcp { control: Some(control.clone()), ..Tcp::default() };
    let traffic =
        Traffic::Bulk { size: None, rate: None, pause: None, tcp, streams, message: None };
    let flow = Flow {
        name: "bulk".to_owned(),
        from: NodeId(0),
        to: NodeId(1),
        family: Family::V4,
        start: Time::ZERO,
        duration: None,
        traffic,
        dscp: 0,
    };
    let [from_addr, to_addr] = ADDRESSES.map(IpAddr::from);
    let [from_netns, to_netns] = [0, 1].map(|end: usize| Some(netns[end].as_fd()));
    let spec = FlowSpec {
        id: FlowId(0),
        flow,
        from_netns,
        to_netns,
        from_addr,
        to_addr,
        port: 0,
        ideal: None,
        paths: Vec::new(),
    };
    let interval = Span::from_millis(100);
    let clock = LabClock::new(sys::clock::monotonic());
    let options = FlowOptions { clock, interval, seed: 1, waits: None };
    let cpu = sys::clock::process_cpu();
    let engine = FlowEngine::spawn(vec![spec], options, Box::new(drop))?;
    std::thread::sleep(Duration::from_secs(seconds));
    let results = engine.finish().results;
    let used = sys::clock::process_cpu() - cpu;
    let result = results.first().ok_or("no result")?;
    println!("control       {control}, {streams} stream(s), {} s", result.active.as_secs_f64());
    println!("goodput       {:.2} Gbit/s", result.mean_goodput() / 1e9);
    let low = result.goodput.percentile(0.1) as f64 / 1e9;
    println!("p10 of 0.1 s  {low:.2} Gbit/s");
    println!("cores         {:.2}", used as f64 / result.active.as_nanos() as f64);
    println!("retransmits   {}", result.retransmits.unwrap_or(0));
    Ok(())
}

fn namespace() -> Result<OwnedFd, Box<dyn Error>> {
    let thread = std::thread::spawn(|| {
        namespace::unshare(Kinds::NET)?;
        namespace::current_net()
    });
    Ok(thread.join().map_err(|_| "the thread panicked")??)
}

fn join(netns: &[OwnedFd; 2]) -> sys::Result<()> {
    namespace::in_net(netns[0].as_fd(), || {
        let mut batch = Batch::new();
        batch.add_veth(&Veth {
            name: "eth0",
            address: [2, 0, 0, 0, 0, 1],
            peer_name: "eth0",
            peer_address: [2, 0, 0, 0, 0, 2],
            peer_net: netns[1].as_fd(),
            mtu: 1500,
        });
        netlink::Socket::open()?.submit(batch)
    })??;
    for (netns, address) in netns.iter().zip(ADDRESSES) {
        namespace::in_net(netns.as_fd(), || {
            let index = netlink::index_of("eth0")?;
            let mut batch = Batch::new();
            batch.set_link(index, &LinkSettings { up: Some(true), ..LinkSettings::default() });
            batch.add_address(index, address.into(), 30);
            netlink::Socket::open()?.submit(batch)
        })??;
    }
    Ok(())
}
