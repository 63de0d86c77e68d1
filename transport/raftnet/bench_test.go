package raftnet

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/session"
)

// tcpStreams are bare connections, without scanning or patience.
type tcpStreams struct{ net.Listener }

func (tcpStreams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", string(address), timeout)
}

// overTCP returns Raft's transport on loopback.
//
//nolint:revive // flag-parameter: the benchmark compares both values
func overTCP(b *testing.B, node session.Node, ours bool) *raft.NetworkTransport {
	b.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	if ours {
		l := New(Config{ClusterID: "c", Node: node, Advertise: listener.Addr().String(), Listener: listener})
		return NewTransport(l, 0).NetworkTransport
	}
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: tcpStreams{listener}, MaxPool: 3, MaxRPCsInFlight: 1, Timeout: defaultTimeout,
		Logger: hclog.NewNullLogger(),
	})
}

// BenchmarkRequest measures one append request after another over TCP on loopback, on bare connections and on a
// Layer's.
func BenchmarkRequest(b *testing.B) {
	for _, size := range []int{0, 1000, 60_000, 1_000_000} {
		for _, ours := range []bool{false, true} {
			b.Run(fmt.Sprintf("bytes=%d/ours=%v", size, ours), func(b *testing.B) {
				from, to := overTCP(b, 1, ours), overTCP(b, 2, ours)
				go func() {
					for rpc := range to.Consumer() {
						rpc.Respond(answerTo(rpc.Command), nil)
					}
				}()
				request := batch(size)
				for b.Loop() {
					if err := from.AppendEntries("2", to.LocalAddr(), request,
						&raft.AppendEntriesResponse{}); err != nil {
						b.Fatal(err)
					}
				}
				for _, tr := range []*raft.NetworkTransport{from, to} {
					tr.CloseStreams()
					if err := tr.Close(); err != nil {
						b.Error(err)
					}
				}
			})
		}
	}
}
