// What both ns-3 programs need: hosts with TCP as netarium's, links, and the result.
#pragma once

#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "routing.h"

constexpr uint32_t kSegment = 1448;
constexpr uint16_t kPort = 5001;

// CUBIC with SACK, windows that hardly bind, delayed acknowledgements and ten segments at first;
// the fastest of ns-3's schedulers for these networks.
inline void Configure(uint64_t window) {
  using namespace ns3;
  GlobalValue::Bind("SchedulerType", StringValue("ns3::PriorityQueueScheduler"));
  Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpCubic::GetTypeId()));
  Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
  Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(kSegment));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
  Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(window));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(window));
}

class Network {
 public:
  ns3::Ptr<ns3::Node> Add(ns3::Ipv4Address address, Choice choice) {
    using namespace ns3;
    auto node = CreateObject<Node>();
    auto ipv4 = CreateObject<Ipv4L3Protocol>();
    node->AggregateObject(CreateObject<ArpL3Protocol>());
    node->AggregateObject(ipv4);
    node->AggregateObject(CreateObject<Icmpv4L4Protocol>());
    node->AggregateObject(CreateObject<TrafficControlLayer>());
    node->AggregateObject(CreateObject<UdpL4Protocol>());
    node->AggregateObject(CreateObject<TcpL4Protocol>());
    ipv4->SetRoutingProtocol(CreateObject<FunctionRouting>(std::move(choice)));
    m_addresses.push_back(address);
    m_nodes.push_back(node);
    return node;
  }

  // A link without queue disciplines above its drop-tail queues, which is what costs least.
  void Join(ns3::Ptr<ns3::Node> a, ns3::Ptr<ns3::Node> b, const std::string& rate,
            const std::string& delay, const std::string& queue) {
    using namespace ns3;
    PointToPointHelper link;
    link.DisableFlowControl();
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetChannelAttribute("Delay", StringValue(delay));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(queue));
    const auto pair = link.Install(a, b);
    for (uint32_t end = 0; end < 2; ++end) {
      auto device = DynamicCast<PointToPointNetDevice>(pair.Get(end));
      m_queues.push_back(device->GetQueue());
      auto ipv4 = device->GetNode()->GetObject<Ipv4>();
      const uint32_t interface = ipv4->AddInterface(device);
      ipv4->AddAddress(interface, {m_addresses[device->GetNode()->GetId()], Ipv4Mask(0xffffffff)});
      ipv4->SetUp(interface);
    }
  }

  // One connection that always has something to send.
  void Flow(ns3::Ptr<ns3::Node> from, ns3::Ptr<ns3::Node> to, ns3::Time start) {
    using namespace ns3;
    const InetSocketAddress address(m_addresses[to->GetId()], kPort);
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), kPort));
    m_sinks.push_back(DynamicCast<PacketSink>(sink.Install(to).Get(0)));
    BulkSendHelper source("ns3::TcpSocketFactory", address);
    source.SetAttribute("SendSize", UintegerValue(kSegment));
    source.Install(from).Start(start);
  }

  // Packets that links transmitted; what a trace sink would count, without its cost.
  uint64_t Transmitted() const {
    uint64_t count = 0;
    for (const auto& queue : m_queues) {
      count += queue->GetTotalReceivedPackets() - queue->GetNPackets();
    }
    return count;
  }

  uint64_t Dropped() const {
    uint64_t count = 0;
    for (const auto& queue : m_queues) {
      count += queue->GetTotalDroppedPackets();
    }
    return count;
  }

  uint64_t Received() const {
    uint64_t bytes = 0;
    for (const auto& sink : m_sinks) {
      bytes += sink->GetTotalRx();
    }
    return bytes;
  }

  void Run(double seconds) {
    using namespace ns3;
    using Clock = std::chrono::steady_clock;
    Simulator::Stop(Seconds(seconds));
    const auto began = Clock::now();
    Simulator::Run();
    const double wall = std::chrono::duration<double>(Clock::now() - began).count();
    const auto hops = Transmitted();
    std::printf("{\"virtual_s\":%g,\"wall_s\":%.6f,\"events\":%lu,\"packet_hops\":%lu,"
                "\"packet_hops_per_s\":%.0f,\"goodput_bits_per_s\":%.0f,\"drops\":%lu}\n",
                seconds, wall, (unsigned long)Simulator::GetEventCount(), (unsigned long)hops,
                hops / wall, Received() * 8 / seconds, (unsigned long)Dropped());
    Simulator::Destroy();
  }

 private:
  std::vector<ns3::Ptr<ns3::Node>> m_nodes;
  std::vector<ns3::Ipv4Address> m_addresses;
  std::vector<ns3::Ptr<ns3::Queue<ns3::Packet>>> m_queues;
  std::vector<ns3::Ptr<ns3::PacketSink>> m_sinks;
};
