// SimGrid: flows that start and end on a network, each with its fair share of its path's links.
//   fluid [times] < NETWORK
// NETWORK: the number of nodes, of one-way links and of flows; for each link its rate (B/s) and
// delay (s); for each flow, in the order of their starts, start (s), from, to, bytes, the number of
// its links and the links. With `times` each flow's end is printed as well, in the flows' order.
#include <simgrid/s4u.hpp>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <unordered_set>
#include <vector>

namespace sg = simgrid::s4u;

namespace {

struct Flow {
  double start;
  uint32_t from, to;
  uint64_t size;
};

}  // namespace

int main(int argc, char** argv) {
  sg::Engine engine(&argc, argv);
  const bool times = argc > 1 && std::string(argv[1]) == "times";
  // Pure max-min sharing: no factors for headers, nothing for acknowledgements, no window.
  sg::Engine::set_config("network/model:CM02");
  sg::Engine::set_config("network/bandwidth-factor:1");
  sg::Engine::set_config("network/latency-factor:1");
  sg::Engine::set_config("network/weight-S:0");
  sg::Engine::set_config("network/crosstraffic:0");
  sg::Engine::set_config("network/TCP-gamma:0");
  std::ios::sync_with_stdio(false);
  uint32_t node_count = 0, link_count = 0, flow_count = 0;
  std::cin >> node_count >> link_count >> flow_count;
  auto* zone = sg::create_full_zone("network");
  std::vector<sg::Host*> nodes;
  for (uint32_t n = 0; n < node_count; ++n) {
    nodes.push_back(zone->create_host("n" + std::to_string(n), 1e9));
  }
  std::vector<const sg::Link*> links;
  for (uint32_t n = 0; n < link_count; ++n) {
    double rate = 0, delay = 0;
    std::cin >> rate >> delay;
    links.push_back(zone->create_link("l" + std::to_string(n), rate)->set_latency(delay)->seal());
  }
  std::vector<Flow> flows(flow_count);
  std::unordered_set<uint64_t> routed;
  for (auto& flow : flows) {
    uint32_t hops = 0;
    std::cin >> flow.start >> flow.from >> flow.to >> flow.size >> hops;
    std::vector<sg::LinkInRoute> path;
    for (uint32_t hop = 0; hop < hops; ++hop) {
      uint32_t link = 0;
      std::cin >> link;
      path.emplace_back(links.at(link));
    }
    if (routed.insert(uint64_t{flow.from} << 32 | flow.to).second) {
      zone->add_route(nodes.at(flow.from)->get_netpoint(), nodes.at(flow.to)->get_netpoint(),
                      nullptr, nullptr, path, false);
    }
  }
  if (!std::cin) {
    std::fprintf(stderr, "the network is not complete\n");
    return 2;
  }
  zone->seal();
  std::vector<sg::CommPtr> transfers;
  transfers.reserve(flow_count);
  sg::Actor::create("source", nodes[0], [&] {
    for (const auto& flow : flows) {
      sg::this_actor::sleep_until(flow.start);
      transfers.push_back(sg::Comm::sendto_async(nodes[flow.from], nodes[flow.to], flow.size));
    }
    sg::Comm::wait_all(transfers);
  });
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  engine.run();
  const double wall = std::chrono::duration<double>(Clock::now() - began).count();
  if (times) {
    for (const auto& transfer : transfers) {
      std::printf("%.9f\n", transfer->get_finish_time());
    }
  }
  // Sum of the flows' durations over the total time: the mean number of concurrent flows.
  double spent = 0;
  for (uint32_t n = 0; n < flow_count; ++n) {
    spent += transfers[n]->get_finish_time() - flows[n].start;
  }
  const double end = sg::Engine::get_clock();
  std::printf("{\"virtual_s\":%.9f,\"wall_s\":%.6f,\"flows\":%u,\"active\":%.1f}\n", end, wall,
              flow_count, spent / end);
}
