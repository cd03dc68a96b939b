//! What a controller of a wide-area network does with this library: three sites, five demands, the
//! rates found centrally and by SLBN's routers, a demand that grows, and a link that fails.
//!
//! `cargo run -p netarium-ratecontrol --example wan_controller`
#![expect(clippy::print_stdout, reason = "examples show what they do")]

use base::{Bandwidth, Span};
use ratecontrol::wan::{Allocator, Central, DemandId, Distributed, Effort, Limit, Link, Network};
use ratecontrol::{Result, Settings};

// Directed links by number: ams → fra and back, fra → mad and back, ams → mad and back.
const AMS_FRA: u32 = 0;
const FRA_MAD: u32 = 2;
const AMS_MAD: u32 = 4;
const MAD_AMS: u32 = 5;

fn gbits(rate: u64) -> Bandwidth {
    Bandwidth::from_mbits_per_sec(rate * 1_000)
}

fn network() -> Result<Network> {
    let pairs = [(gbits(100), 4), (gbits(40), 14), (gbits(40), 16)];
    let links: Vec<Link> = pairs
        .into_iter()
        .flat_map(|(capacity, millis)| [Link { capacity, delay: Span::from_millis(millis) }; 2])
        .collect();
    Network::try_new(&links)
}

/// The controller: what it calls its demands, and both ways to their rates.
struct Controller {
    names: Vec<(DemandId, &'static str)>,
    central: Central,
    routers: Distributed,
}

impl Controller {
    fn both(&mut self, change: impl Fn(&mut dyn Allocator) -> Result<()>) -> Result<()> {
        change(&mut self.central)?;
        change(&mut self.routers)
    }

    fn add(&mut self, name: &'static str, path: &[u32], demand: Bandwidth) -> Result<()> {
        let id = self.central.add(path, demand)?;
        // Both count demands alike.
        self.routers.add(path, demand)?;
        self.names.push((id, name));
        Ok(())
    }

    fn id(&self, name: &str) -> DemandId {
        let found = self.names.iter().find(|(_, known)| *known == name);
        found.expect("demands are added before they are changed").0
    }

    /// Prints what has changed.
    fn show(&mut self, what: &str) -> Result<()> {
        let (central, routers) = (self.central.rates()?, self.routers.rates()?);
        let run = self.routers.last_run();
        println!("{what}:");
        println!("  {:<22} {:>13} {:>13}  limited by", "demand", "central", "SLBN");
        for (share, other) in central.iter().zip(&routers) {
            let name = self.names.iter().find(|(id, _)| *id == share.demand);
            let name = name.map_or("", |(_, name)| name);
            let limit = match share.limit {
                Limit::Demand => "its demand".to_owned(),
                Limit::Link(link) => format!("link {link}"),
                Limit::Down(link) => format!("link {link}, which is down"),
            };
            let rates = [share.rate, other.rate].map(|rate| rate.to_string());
            println!("  {name:<22} {:>13} {:>13}  {limit}", rates[0], rates[1]);
        }
        let [converged, settled] =
            [run.converged, run.settled].map(|span| span.as_secs_f64() * 1e3);
        println!(
            "  SLBN's last rate changed after {converged:.1} ms; sure after {settled:.1} ms, {} \
             cycles, {} packets\n",
            run.cycles, run.packets
        );
        Ok(())
    }
}

fn main() -> Result<()> {
    let network = network()?;
    let mut controller = Controller {
        names: Vec::new(),
        central: Central::new(&network),
        routers: Distributed::try_new(&network, Settings::default(), Effort::default())?,
    };
    controller.add("ams→mad backup", &[AMS_MAD], gbits(400))?;
    controller.add("ams→mad copies", &[AMS_MAD], gbits(400))?;
    controller.add("ams→mad over fra", &[AMS_FRA, FRA_MAD], gbits(400))?;
    controller.add("ams→fra interactive", &[AMS_FRA], gbits(30))?;
    controller.add("mad→ams logs", &[MAD_AMS], gbits(3))?;
    controller.show("All five")?;

    let interactive = controller.id("ams→fra interactive");
    controller.both(|wan| wan.change(interactive, gbits(70)))?;
    controller.show("The interactive demand grows to 70 Gbit/s")?;

    controller.both(|wan| wan.set_capacity(AMS_MAD, Bandwidth::default()))?;
    controller.show("The link from Amsterdam to Madrid fails")?;

    // The controller moves the backup to the other path.
    let backup = controller.id("ams→mad backup");
    controller.both(|wan| wan.remove(backup))?;
    controller.add("ams→mad backup (fra)", &[AMS_FRA, FRA_MAD], gbits(400))?;
    controller.show("The backup goes over Frankfurt")?;

    controller.both(|wan| wan.set_capacity(AMS_MAD, gbits(40)))?;
    controller.show("The link is back")
}
