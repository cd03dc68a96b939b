"""The mutations of dev/mutate: crates that use others first, so that less is built again."""

from dataclasses import dataclass
from pathlib import Path

from results import ROOT


@dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    # One line, or a part that is there once.
    old: str
    new: str
    # A regular expression of the tests that must fail.
    tests: str
    target: str = "--lib"
    # The folder of the crate that has these tests, if it is another one.
    tests_in: str = ""

    @property
    def folder(self):
        """The folder of the crate that has the tests."""
        return self.tests_in or Path(*Path(self.file).parts[:3])

    @property
    def package(self):
        """The package of the tests."""
        lines = (ROOT / self.folder / "Cargo.toml").read_text(encoding="utf-8").splitlines()
        return next(line.split('"')[1] for line in lines if line.startswith("name = "))


MUTATIONS = [
    Mutation(
        "lab-text-comma",
        "crates/app/cli/src/link/lab_text.rs",
        "',' if !in_quotes && depth == 0",
        "',' if !in_quotes && depth <= 1",
        "commas_in_tables_and_texts_do_not_separate",
        "--bins",
    ),
    Mutation(
        "client-limit",
        "crates/app/serve/src/lib.rs",
        "Semaphore::new(max_clients)",
        "Semaphore::new(max_clients + 1)",
        "refuses_clients_above_limit",
    ),
    Mutation(
        "watchdog-interval",
        "crates/app/ops/src/service.rs",
        "Duration::from_micros(timeout) / 2",
        "Duration::from_micros(timeout)",
        "watchdog_interval_is_half_of_the_timeout",
    ),
    Mutation(
        "markup",
        "crates/lab/report/src/format.rs",
        "'\\'' => out.push_str(\"&#39;\")",
        "'\\'' => out.push('\\'')",
        "escapes_markup",
    ),
    Mutation(
        "second-thread-deadline",
        "crates/lab/emu/src/datapath/threads.rs",
        "worker.handle_due(clock.now());",
        "let _ = clock.now();",
        "handles_deadlines_that_the_first_thread_misses",
    ),
    Mutation(
        "second-thread-wake",
        "crates/lab/emu/src/datapath/threads.rs",
        "            second.unpark();",
        "",
        "wakes_for_an_earlier_deadline",
    ),
    Mutation(
        "emulated-stream",
        "crates/lab/emu/src/flow/content.rs",
        "(offset % 8) as usize",
        "(offset % 4) as usize",
        "parts_are_those_of_the_whole",
    ),
    Mutation(
        "packet-ticket",
        "crates/lab/sim/src/tickets.rs",
        "place.term == term",
        "place.term >= term",
        "a_ticket_is_good_once",
    ),
    Mutation(
        "certificate-number",
        "crates/cluster/live/src/authority/index.rs",
        "serial[1..3] == number.to_be_bytes()",
        "serial[1..3] == number.to_le_bytes()",
        "each_name_has_its_number_until_it_is_revoked",
    ),
    Mutation(
        "machine-order",
        "crates/cluster/placement/src/hosts.rs",
        "a.name.cmp(&b.name)",
        "b.name.cmp(&a.name)",
        "reads_agents_and_machines",
    ),
    Mutation(
        "exit-code",
        "crates/lab/run/src/exit.rs",
        "Self::Untrusted => 3,",
        "Self::Untrusted => 4,",
        "exit_round_trips_through_its_code",
    ),
    Mutation(
        "window-percentile",
        "crates/lab/run/src/metrics.rs",
        "_ => values.max_by(f64::total_cmp),",
        "_ => values.min_by(f64::total_cmp),",
        "window_percentile_is_an_upper_bound",
    ),
    Mutation(
        "event-order",
        "crates/lab/timeline/src/moment.rs",
        "self.rank > Rank::Arrival",
        "self.rank >= Rank::Arrival",
        "stops_before_the_given_moment",
    ),
    Mutation(
        "bundle-jitter",
        "crates/bundler/lab/src/feedback.rs",
        "self.jitter.below(most + 1)",
        "self.jitter.below(most / 2 + 1)",
        "feedback_loss_and_jitter_follow_the_lab",
    ),
    Mutation(
        "bundle-prefix",
        "crates/bundler/live/src/prefix.rs",
        "|(other, _)| mask.cmp(other)",
        "|(other, _)| other.cmp(&mask)",
        "longest_destination_prefix_wins_then_source",
    ),
    Mutation(
        "expectation",
        "crates/lab/file/src/expect.rs",
        "Self::Below => left < right,",
        "Self::Below => left <= right,",
        "outcomes_tell_held_failed_and_not_measured_apart",
    ),
    Mutation(
        "archive-name",
        "crates/bgp/live/src/archive/layout.rs",
        "is_multiple_of(60 * SECOND)",
        "is_multiple_of(10 * SECOND)",
        "uses_names_of_public_collectors",
    ),
    Mutation(
        "hour-verdict",
        "crates/bgp/collector/src/integrity/hour.rs",
        "if self.peer.update > 0 => Verdict::Whole",
        "if self.peer.update == 0 => Verdict::Whole",
        "marks_idle_neighbour_quiet",
    ),
    Mutation(
        "aigp-length",
        "crates/bgp/codec/src/attribute/aigp.rs",
        "length.checked_sub(3)",
        "length.checked_sub(2)",
        "returns_first_metric",
    ),
    Mutation(
        "bgp-message-length",
        "crates/bgp/codec/src/message.rs",
        "length < HEADER",
        "length <= HEADER",
        "splits_a_keepalive_off",
    ),
    Mutation(
        "proxy-greeting",
        "crates/mctcp/proxy/src/gate.rs",
        "now.duration_since(holder.since) >= MIN_GREETING",
        "now.duration_since(holder.since) > MIN_GREETING",
        "new_client_replaces_oldest_idle_client_of_its_source",
    ),
    Mutation(
        "partial-write",
        "crates/mctcp/live/src/queue.rs",
        "self.at += head;",
        "self.at += head / 2;",
        "partial_writes_lose_nothing",
    ),
    Mutation(
        "round-robin",
        "crates/mctcp/core/src/scheduler/round_robin.rs",
        "Some(*id) > self.last",
        "Some(*id) >= self.last",
        "everyone_has_a_turn_and_those_without_room_lose_it",
    ),
    Mutation(
        "join-replay",
        "crates/mctcp/core/src/acceptor/replay.rs",
        "self.next = index + 1;",
        "self.next = index;",
        "each_index_is_good_once_and_not_too_late",
    ),
    Mutation(
        "failure-detector",
        "crates/cluster/core/src/detector.rs",
        "now.since(peer.last_heartbeat) >= self.timeout",
        "now.since(peer.last_heartbeat) > self.timeout",
        "reports_return_of_lost_agent",
    ),
    Mutation(
        "packet-digest",
        "crates/bundler/core/src/digest.rs",
        "0x0000_ffff_ffff_1fff",
        "0x0000_ffff_ffff_5fff",
        "v4_digest_covers_immutable_fields",
    ),
    Mutation(
        "rcp-alpha",
        "crates/ratecontrol/core/src/rcp/link.rs",
        "const ALPHA: f64 = 0.1;",
        "const ALPHA: f64 = 0.2;",
        "^rcp::tests::the_rate_follows_input_and_queue$",
    ),
    Mutation(
        "test-network-copy",
        "crates/network/testnet/src/lib.rs",
        "self.hold(at + span, arrival(message.clone()))",
        "self.hold(at + span + span, arrival(message.clone()))",
        "applies_fates_after_the_link",
    ),
    Mutation(
        "agreement-message",
        "crates/network/agreement/src/wire.rs",
        "self.at += N;",
        "self.at += N / 2;",
        "all_agents_learn_all_flows",
    ),
    Mutation(
        "gilbert-elliott",
        "crates/network/fabric/src/loss.rs",
        "if self.bad { r } else { p }",
        "if self.bad { p } else { r }",
        "gilbert_elliott_loses_in_bursts",
    ),
    Mutation(
        "pause",
        "crates/network/workload/src/pause.rs",
        "from <= since && since < until",
        "from < since && since < until",
        "pause_begins_and_ends_once",
    ),
    Mutation(
        "cubic-growth",
        "crates/network/transport/src/tcp/control/cubic.rs",
        "const C: f64 = 0.4;",
        "const C: f64 = 0.2;",
        "cubic_reaches_its_plateau_after_k",
    ),
    Mutation(
        "red-idle",
        "crates/network/queue/src/red.rs",
        "self.average -= weight.of(self.average).max(1);",
        "self.average += weight.of(self.average).max(1);",
        "red_forgets_a_long_queue_while_idle",
    ),
    Mutation(
        "rtt-weight",
        "crates/network/sharing/src/tcp.rs",
        "1.0 / round_trip.max(",
        "1.0 * round_trip.max(",
        "the_worked_example_of_rtt_aware_sharing",
        "--test fair",
    ),
    Mutation(
        "line-topology",
        "crates/network/topology/src/generate/regular.rs",
        "for router in 1..self.routers",
        "for router in 2..self.routers",
        "line_and_ring",
    ),
    Mutation(
        "checksum",
        "crates/network/wire/src/checksum.rs",
        "total + u64::from(u32::from_be_bytes(last))",
        "total + u64::from(u32::from_le_bytes(last))",
        "sums_the_example_of_rfc_1071",
    ),
    Mutation(
        "fragment-offset",
        "crates/network/wire/src/fragment.rs",
        "(base + (at / 8) as u16)",
        "(base + (at / 4) as u16)",
        "fragments_add_up",
    ),
    Mutation(
        "environment",
        "crates/base/sys/src/confine/environment.rs",
        'starts_with(b"LC_")',
        'starts_with(b"L")',
        "inherits_locale_but_no_secrets",
    ),
    Mutation(
        "child-time",
        "crates/base/sys/src/sched.rs",
        "split_ascii_whitespace().skip(13)",
        "split_ascii_whitespace().skip(12)",
        "reads_what_the_kernel_counts",
    ),
    Mutation(
        "leb128",
        "crates/base/base/src/leb128.rs",
        "bits.leading_zeros() < shift",
        "bits.leading_zeros() <= shift",
        "reads_what_it_wrote_and_rejects_numbers_beyond_64_bits",
    ),
    Mutation(
        "percent",
        "crates/base/base/src/quantity.rs",
        '("%", 10_000_000)',
        '("%", 1_000_000)',
        "text_has_units",
    ),
    Mutation(
        "handshake-limit",
        "crates/cluster/listener/src/lib.rs",
        "abort(self.handshakes.insert(source, connection.number, task))",
        "drop(self.handshakes.insert(source, connection.number, task))",
        "handshakes_from_one_source_replace_the_oldest_one",
    ),
    Mutation(
        "source-limit",
        "crates/base/quota/src/lib.rs",
        "if own >= self.max_per_source {",
        "if own > self.max_per_source {",
        "new_holder_replaces_the_oldest_of_the_source_with_the_most_places",
    ),
    # Each takes a protection away that `docs/src/security` describes. F1 to F11 are the findings of
    # an audit. The tests of `confine/view.rs` need root.
    Mutation(
        "attack-f1-links",
        "crates/lab/run/src/files.rs",
        "ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS",
        "ResolveFlags::NO_MAGICLINKS",
        "no_operation_follows_a_link",
    ),
    Mutation(
        "attack-f1-hard-links",
        "crates/lab/run/src/files.rs",
        "if file.metadata()?.nlink() <= 1 {",
        "if file.metadata()?.nlink() > 0 {",
        "writes_no_file_with_another_name",
    ),
    Mutation(
        "attack-f1-output",
        "crates/lab/run/src/merge/files.rs",
        "Replacement::of(&to.join(entry.file_name()))?;",
        "Replacement::of(&to.join(entry.file_name()).canonicalize()?)?;",
        "output_is_copied_through_no_link",
    ),
    Mutation(
        "attack-f1-results",
        "crates/cluster/live/src/results.rs",
        "Replacement::of(to).map_err(",
        "Replacement::of(&to.canonicalize().unwrap_or(to.into())).map_err(",
        "packs_through_no_link",
    ),
    Mutation(
        "attack-f1-summary",
        "crates/app/cli/src/set.rs",
        "run::files::replace(&file, text.as_bytes())",
        "std::fs::write(&file, text.as_bytes())",
        "links_beside_run_folders_are_not_followed",
        "--test programs",
    ),
    Mutation(
        "attack-f2-read-only",
        "crates/base/sys/src/confine/view.rs",
        'set_access(Path::new("/"), Access::ReadOnly, true)?;',
        'set_access(Path::new("/"), Access::NoDevices, true)?;',
        "only_the_listed_folders_are_writable",
    ),
    Mutation(
        "attack-f3-handshakes",
        "crates/cluster/listener/src/lib.rs",
        "let step = ended.ok();",
        "let step = ended.ok(); sleep(Duration::from_millis(100)).await;",
        "failed_handshakes_and_silent_connections_delay_no_other_handshake",
    ),
    Mutation(
        "attack-f4-names",
        "crates/cluster/live/src/agent/handle.rs",
        "|| names.len() < MAX_NAMES_PER_CERTIFICATE",
        "|| names.len() < usize::MAX",
        "tracks_a_limited_number_of_names_of_a_certificate",
    ),
    Mutation(
        "attack-f4-pings",
        "crates/cluster/core/src/clock/pinger.rs",
        "self.next_ping = now + MIN_SPACING;",
        "self.next_ping = now;",
        "many_peers_share_a_limited_rate_of_pings",
    ),
    Mutation(
        "attack-f5-io-uring",
        "crates/base/sys/src/confine/seccomp.rs",
        "libc::SYS_io_uring_setup,",
        "",
        "refuses_io_uring",
    ),
    Mutation(
        "attack-f6-entries",
        "crates/lab/emu/src/registry.rs",
        "if let Some(why) = check(self) {",
        "if let Some(why) = check(self).filter(|_| false) {",
        "reports_forged_entries_and_does_not_signal_their_processes",
    ),
    Mutation(
        "attack-f7-invitation",
        "crates/cluster/live/src/enrol/server.rs",
        "!connection.is_over());",
        "!connection.is_over()); if connections.iter().count() > 8 { continue; }",
        "idle_connections_do_not_block_an_enrolment",
    ),
    Mutation(
        "attack-f8-services",
        "crates/base/sys/src/confine/view.rs",
        "empty_services(path)?;",
        "let _ = path;",
        "run_has_the_folders_of_the_host_and_no_sockets",
    ),
    Mutation(
        "attack-f9-terminal",
        "crates/app/cli/src/foreign_text.rs",
        "c => c.is_control(),",
        "_ => false,",
        "shows_characters_that_control_a_terminal",
        "--bins",
    ),
    Mutation(
        "attack-f10-quotes",
        "crates/lab/file/src/files.rs",
        "(Ok(file), Ok(folder)) => !file.starts_with(folder),",
        "(Ok(_), Ok(_)) => false,",
        "errors_do_not_quote_files_outside_the_folder_of_the_lab",
        "--test foreign_files",
    ),
    Mutation(
        "attack-f11-pipes",
        "crates/lab/file/src/files.rs",
        "kind if kind.is_file() => return Ok(()),",
        "kind if !kind.is_dir() => return Ok(()),",
        "opens_only_regular_files",
    ),
    Mutation(
        "attack-f11-size",
        "crates/network/topology/src/generate.rs",
        "if count > limit { Err(",
        "if count > limit.max(MAX_ELEMENTS) { Err(",
        "size_is_known_before_the_graph_is_built",
    ),
    Mutation(
        "attack-kernel-files",
        "crates/base/sys/src/confine/view.rs",
        '"vmstat",',
        '"vmallocinfo",',
        "protects_and_hides_files_of_the_kernel",
    ),
    Mutation(
        "attack-checksums",
        "crates/bgp/collector/src/decapsulate.rs",
        "Checksum::Unknown => counters.unknown_checksums += 1,",
        "Checksum::Unknown => {}",
        "accepts_any_sum_of_segments_above_mss",
    ),
    Mutation(
        "attack-senders",
        "crates/bgp/collector/src/decapsulate/offload.rs",
        "if self.order.len() == MAX_SENDERS {",
        "if self.order.len() == MAX_SENDERS / 2 {",
        "other_senders_do_not_replace_one_below_the_limit",
    ),
    Mutation(
        "flow-waits",
        "crates/lab/run/src/effect.rs",
        "in_network + self.flow_waits.percentile(1.0 - exceeded / 2.0)",
        "in_network",
        "waits_of_the_flow_thread_change_what_it_handles",
    ),
    Mutation(
        "stall-times",
        "crates/lab/run/src/stalls.rs",
        "sum += to.min(*end).since(from.max(*begin));",
        "sum += end.since(*begin);",
        "a_part_of_the_run_has_the_stalls_that_touch_it",
    ),
    Mutation(
        "request-schedule",
        "crates/network/workload/src/rpc.rs",
        ".max(self.due + self.spec.interval)",
        ".max(self.issued + self.spec.interval)",
        "rpc_keeps_its_interval_and_count",
    ),
    Mutation(
        "mirror-counterpart",
        "crates/bgp/collector/src/reassembly.rs",
        "answers == Some(segment.acknowledgment)",
        "answers.is_some() && acknowledged.is_some()",
        "mutations_change_nothing_that_is_not_stated",
        "--test faults",
        "crates/bgp/live",
    ),
    Mutation(
        "repeated-interface",
        "crates/bgp/collector/src/capture.rs",
        "Some(name) => self.named.get(name),",
        "Some(_) => None,",
        "mutations_change_nothing_that_is_not_stated",
        "--test faults",
        "crates/bgp/live",
    ),
]
