// Routing by a function of the packet, for ns-3: every lookup takes constant time, where ns-3's own
// protocols walk a list of routes, and equal paths are shared by flow, which those cannot.
#pragma once

#include <ns3/internet-module.h>

#include <functional>
#include <vector>

// Which interface a packet leaves by; 0 (the loopback): it is for this node.
using Choice = std::function<uint32_t(const ns3::Ipv4Header&, ns3::Ptr<const ns3::Packet>)>;

class FunctionRouting : public ns3::Ipv4RoutingProtocol {
 public:
  explicit FunctionRouting(Choice choice) : m_choice(std::move(choice)) {}

  ns3::Ptr<ns3::Ipv4Route> RouteOutput(ns3::Ptr<ns3::Packet> packet,
                                       const ns3::Ipv4Header& header,
                                       ns3::Ptr<ns3::NetDevice>,
                                       ns3::Socket::SocketErrno& error) override {
    error = ns3::Socket::ERROR_NOTERROR;
    return Route(m_choice(header, packet));
  }

  bool RouteInput(ns3::Ptr<const ns3::Packet> packet, const ns3::Ipv4Header& header,
                  ns3::Ptr<const ns3::NetDevice> device, UnicastForwardCallback forward,
                  MulticastForwardCallback, LocalDeliverCallback deliver,
                  ErrorCallback) override {
    const uint32_t interface = m_choice(header, packet);
    if (interface == 0) {
      deliver(packet, header, m_ipv4->GetInterfaceForDevice(device));
    } else {
      forward(Route(interface), packet, header);
    }
    return true;
  }

  void NotifyInterfaceUp(uint32_t) override {}
  void NotifyInterfaceDown(uint32_t) override {}
  void NotifyAddAddress(uint32_t, ns3::Ipv4InterfaceAddress) override {}
  void NotifyRemoveAddress(uint32_t, ns3::Ipv4InterfaceAddress) override {}
  void SetIpv4(ns3::Ptr<ns3::Ipv4> ipv4) override { m_ipv4 = ipv4; }
  void PrintRoutingTable(ns3::Ptr<ns3::OutputStreamWrapper>, ns3::Time::Unit) const override {}

 private:
  ns3::Ptr<ns3::Ipv4Route> Route(uint32_t interface) {
    if (interface >= m_routes.size()) {
      m_routes.resize(interface + 1);
    }
    auto& route = m_routes[interface];
    if (!route) {
      route = ns3::Create<ns3::Ipv4Route>();
      route->SetOutputDevice(m_ipv4->GetNetDevice(interface));
      route->SetSource(m_ipv4->GetAddress(interface, 0).GetLocal());
      route->SetGateway(ns3::Ipv4Address::GetZero());
    }
    return route;
  }

  Choice m_choice;
  ns3::Ptr<ns3::Ipv4> m_ipv4;
  std::vector<ns3::Ptr<ns3::Ipv4Route>> m_routes;
};

// Equal for all packets of a connection in one direction.
inline uint32_t FlowHash(const ns3::Ipv4Header& header, ns3::Ptr<const ns3::Packet> packet) {
  uint8_t ports[4] = {};
  packet->CopyData(ports, sizeof ports);
  uint64_t hash = header.GetSource().Get();
  hash = hash * 0x9e3779b97f4a7c15 + header.GetDestination().Get();
  hash = hash * 0x9e3779b97f4a7c15 + (ports[0] << 24 | ports[1] << 16 | ports[2] << 8 | ports[3]);
  hash ^= hash >> 32;
  hash *= 0x9e3779b97f4a7c15;
  return hash >> 32;
}
