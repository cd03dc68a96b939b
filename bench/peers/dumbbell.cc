// ns-3: FLOWS senders, r1, r2, FLOWS receivers; one TCP connection each for SECONDS.
//   dumbbell FLOWS SECONDS ACCESS_RATE ACCESS_DELAY CORE_RATE CORE_DELAY QUEUE_PACKETS
#include "network.h"

using namespace ns3;

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr, "seven arguments, please\n");
    return 2;
  }
  const uint32_t flows = std::stoul(argv[1]);
  const double seconds = std::stod(argv[2]);
  const std::string queue = std::string(argv[7]) + "p";
  Configure(6 << 20);
  // Senders are 10.1.0.0 and up, receivers 10.2.0.0 and up; the last 16 bits say which.
  const auto side = [](const Ipv4Header& header) { return header.GetDestination().Get() >> 16; };
  const auto host = [](const Ipv4Header& header) { return header.GetDestination().Get() & 0xffff; };
  Network network;
  // Interfaces of r1: the senders in order, then r2. Of r2: the receivers, then r1.
  const auto router = [&](uint32_t own) {
    return [=](const Ipv4Header& header, Ptr<const Packet>) {
      return side(header) == own ? host(header) + 1 : flows + 1;
    };
  };
  auto r1 = network.Add(Ipv4Address(0x0a000001), router(0x0a01));
  auto r2 = network.Add(Ipv4Address(0x0a000002), router(0x0a02));
  std::vector<Ptr<Node>> hosts[2];
  for (uint32_t own = 0; own < 2; ++own) {
    for (uint32_t n = 0; n < flows; ++n) {
      const Ipv4Address address((own == 0 ? 0x0a010000 : 0x0a020000) + n);
      hosts[own].push_back(network.Add(address, [=](const Ipv4Header& header, Ptr<const Packet>) {
        return header.GetDestination() == address ? 0 : 1;
      }));
      network.Join(own == 0 ? r1 : r2, hosts[own].back(), argv[3], argv[4], queue);
    }
  }
  network.Join(r1, r2, argv[5], argv[6], queue);
  for (uint32_t n = 0; n < flows; ++n) {
    network.Flow(hosts[0][n], hosts[1][n], MilliSeconds(n));
  }
  network.Run(seconds);
}
