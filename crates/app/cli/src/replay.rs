//! `replay`.

use run::Error;
use run::record::Clock;
use serde_json::json;

use crate::args::Replay;
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict, results, simulate};
use run::Exit;

pub(crate) fn replay(args: &Replay, terminal: &Terminal) -> Verdict {
    let (folder, record) = results::open(&args.run)?;
    if record.clock == Clock::Virtual {
        let message = "the run was on the virtual clock and needs no recording to be repeated";
        return Err(Failure::usage(message).help(record.repeat));
    }
    let replay = sim::replay(&folder).map_err(|error| match error {
        // A missing or invalid recording is a usage error.
        sim::Error::Record(Error::NotRecorded { .. } | Error::Recording { .. }) => {
            Failure::caused(Exit::Usage, &error)
        }
        _ => simulate::failure(&error),
    })?;
    if terminal.json {
        terminal.object(&json!({
            "schema": "netarium.replay/1",
            "folder": folder.path(),
            "identical": replay.identical,
            "wall_trace_hash": replay.wall_trace_hash,
            "replayed_trace_hash": replay.replayed_trace_hash,
            "calls": replay.calls,
            "packets": replay.packets,
            "events": replay.events,
            "until_s": replay.until.as_secs_f64(),
        }))?;
    } else {
        let verdict = if replay.identical {
            terminal.paint(Style::Good, "identical")
        } else {
            terminal.paint(Style::Bad, "different")
        };
        terminal.data(format!(
            "wall clock     {}\nvirtual clock  {}\n{verdict}: {} packets over {} s, {} events",
            replay.wall_trace_hash,
            replay.replayed_trace_hash,
            replay.packets,
            replay.until.as_secs_f64(),
            replay.events,
        ))?;
    }
    Ok(if replay.identical { Exit::Ok } else { Exit::Expectation })
}
