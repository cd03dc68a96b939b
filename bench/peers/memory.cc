// ns-3: resident memory of idle objects, in bytes each.
//   memory flows COUNT      TCP connections, established and idle, both ends
//   memory packets COUNT    packets of 1000 B on their way over a link of one second
#include <unistd.h>

#include "network.h"

using namespace ns3;

namespace {

uint64_t Resident() {
  uint64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

void Print(uint64_t before, uint32_t count) {
  std::printf("{\"count\":%u,\"bytes_each\":%.1f}\n", count,
              double(Resident() - before) / count);
}

void Flows(Ptr<Node> a, Ptr<Node> b, Ipv4Address to, uint32_t count) {
  std::vector<Ptr<Socket>> clients, servers;
  clients.reserve(count);
  servers.reserve(count);
  auto listener = Socket::CreateSocket(b, TcpSocketFactory::GetTypeId());
  listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), kPort));
  listener->Listen();
  listener->SetAcceptCallback(
      MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
      Callback<void, Ptr<Socket>, const Address&>(
          [&](Ptr<Socket> socket, const Address&) { servers.push_back(socket); }));
  const auto open = [&](uint32_t until) {
    while (clients.size() < until) {
      clients.push_back(Socket::CreateSocket(a, TcpSocketFactory::GetTypeId()));
      clients.back()->Connect(InetSocketAddress(to, kPort));
      Simulator::Stop(MilliSeconds(1));
      Simulator::Run();
    }
  };
  // The first objects also allocate the shared state.
  open(100);
  const auto before = Resident();
  open(count + 100);
  Simulator::Stop(Seconds(2));
  Simulator::Run();
  if (servers.size() != count + 100) {
    NS_FATAL_ERROR("only " << servers.size() << " connections");
  }
  Print(before, count);
}

void Packets(Ptr<Node> a, Ipv4Address to, uint32_t count) {
  auto socket = Socket::CreateSocket(a, UdpSocketFactory::GetTypeId());
  socket->Connect(InetSocketAddress(to, kPort));
  const auto send = [&](uint32_t packets) {
    for (uint32_t n = 0; n < packets; ++n) {
      socket->Send(Create<Packet>(1000));
      Simulator::Stop(NanoSeconds(200));
      Simulator::Run();
    }
  };
  send(1000);
  const auto before = Resident();
  send(count);
  Print(before, count);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[1] : "";
  if (what != "flows" && what != "packets") {
    std::fprintf(stderr, "flows or packets, and how many, please\n");
    return 2;
  }
  Configure(1 << 17);
  const Ipv4Address here("10.0.0.1"), there("10.0.0.2");
  const auto choose = [](Ipv4Address own) {
    return [=](const Ipv4Header& header, Ptr<const Packet>) {
      return header.GetDestination() == own ? 0u : 1u;
    };
  };
  Network network;
  auto a = network.Add(here, choose(here));
  auto b = network.Add(there, choose(there));
  network.Join(a, b, "100Gbps", what == "flows" ? "1us" : "10s", "1000p");
  if (what == "flows") {
    Flows(a, b, there, std::stoul(argv[2]));
  } else {
    Packets(a, there, std::stoul(argv[2]));
  }
  Simulator::Destroy();
}
