// SimGrid: the time of its max-min solver on one system of links and flows, from scratch and when
// one flow joins.
//   sharing < SYSTEM
// SYSTEM: the number of links, of flows and of joining flows; the links' capacities; for each flow
// the number of its links and the links. The joining flows are the last ones.
// Also prints the sum of the rates, which shows that both solvers got the same system.
#include <simgrid/kernel/resource/Model.hpp>
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

namespace sg = simgrid::s4u;

// The library exports the solver's class but no header declares it.
namespace simgrid::kernel::lmm {
class System {
 public:
  void solve();
};
}  // namespace simgrid::kernel::lmm

namespace {

struct Flow {
  sg::Host* from;
  sg::Host* to;
};

simgrid::kernel::lmm::System* solver() {
  for (auto* model : sg::Engine::get_instance()->get_all_models()) {
    if (std::string(model->get_name()).find("Network") != std::string::npos) {
      return model->get_maxmin_system();
    }
  }
  std::fprintf(stderr, "no model of a network\n");
  std::exit(1);
}

double timed_solve(simgrid::kernel::lmm::System* system) {
  const auto began = std::chrono::steady_clock::now();
  system->solve();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

sg::CommPtr begin(const Flow& flow) {
  auto transfer = sg::Comm::sendto_init();
  transfer->set_payload_size(uint64_t{1} << 60);
  // The transfer starts once both ends are set.
  return transfer->set_source(flow.from)->set_destination(flow.to);
}

}  // namespace

int main(int argc, char** argv) {
  sg::Engine engine(&argc, argv);
  for (const char* option :
       {"network/model:CM02", "network/bandwidth-factor:1", "network/latency-factor:1",
        "network/weight-S:0", "network/crosstraffic:0", "network/TCP-gamma:0",
        "network/optim:Lazy"}) {
    sg::Engine::set_config(option);
  }
  std::ios::sync_with_stdio(false);
  uint32_t link_count = 0, flow_count = 0, join_count = 0;
  std::cin >> link_count >> flow_count >> join_count;
  auto* zone = sg::create_full_zone("network");
  std::vector<sg::Link*> links;
  for (uint32_t n = 0; n < link_count; ++n) {
    double capacity = 0;
    std::cin >> capacity;
    auto* link = zone->create_link("l" + std::to_string(n), capacity);
    link->set_latency(0);
    link->seal();
    links.push_back(link);
  }
  std::vector<sg::Host*> hosts;
  while (hosts.size() * hosts.size() < flow_count + hosts.size()) {
    hosts.push_back(zone->create_host("h" + std::to_string(hosts.size()), 1e9));
  }
  // Without latency all weights are one. Each flow has its own pair of hosts, which sets its path.
  std::vector<Flow> flows(flow_count);
  std::size_t pair = 0;
  for (auto& flow : flows) {
    if (pair % (hosts.size() + 1) == 0) {
      ++pair;
    }
    flow.from = hosts.at(pair / hosts.size());
    flow.to = hosts.at(pair % hosts.size());
    ++pair;
    uint32_t hops = 0;
    std::cin >> hops;
    std::vector<sg::LinkInRoute> path;
    for (uint32_t hop = 0; hop < hops; ++hop) {
      uint32_t link = 0;
      std::cin >> link;
      path.emplace_back(links.at(link));
    }
    zone->add_route(flow.from->get_netpoint(), flow.to->get_netpoint(), nullptr, nullptr, path,
                    false);
  }
  if (!std::cin) {
    std::fprintf(stderr, "the system is not complete\n");
    return 2;
  }
  zone->seal();
  sg::Actor::create("source", hosts[0], [&] {
    std::vector<sg::CommPtr> transfers;
    for (uint32_t n = 0; n < flow_count - join_count; ++n) {
      transfers.push_back(begin(flows[n]));
    }
    auto* system = solver();
    const double scratch = timed_solve(system);
    double load = 0;
    for (const auto* link : links) {
      load += link->get_usage();
    }
    std::vector<double> joins;
    for (uint32_t n = flow_count - join_count; n < flow_count; ++n) {
      transfers.push_back(begin(flows[n]));
      joins.push_back(timed_solve(system));
    }
    std::sort(joins.begin(), joins.end());
    const double join = joins.empty() ? 0 : joins[joins.size() / 2];
    std::printf("{\"scratch_s\":%.9f,\"join_s\":%.9f,\"load\":%.17g}\n", scratch, join, load);
    std::fflush(stdout);
    std::_Exit(0);
  });
  engine.run();
}
