package raftnet

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
)

// TestOverRealTCP: a batch arrives over TCP, with the kernel's own buffers, on a link that needs longer for the batch
// than Raft waits for all of it. Speed does not matter: an attempt may fail when this machine stands still, and is
// repeated.
func TestOverRealTCP(t *testing.T) {
	const timeout = 500 * time.Millisecond
	var transports []*Transport
	var addresses []string
	for i := range 2 {
		var lc net.ListenConfig
		listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, listener.Addr().String())
		l := New(
			Config{
				ClusterID: "c", Node: session.Node(i + 1), Advertise: addresses[i], Listener: listener,
				HandshakeTimeout: timeout,
			},
		)
		transports = append(transports, NewTransport(l, timeout))
	}
	thin := newThinProxy(t, addresses[1], 1<<20)
	ended, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for { // an attempt may fail after it has arrived
			select {
			case rpc := <-transports[1].Consumer():
				if request, ok := rpc.Command.(*raft.AppendEntriesRequest); !ok || len(request.Entries) != 20 {
					t.Errorf("%T arrived", rpc.Command)
				}
				rpc.Respond(answerTo(rpc.Command), nil)
			case <-ended:
				return
			}
		}
	}()
	for {
		begun := time.Now()
		err := transports[0].NetworkTransport.AppendEntries("2", raft.ServerAddress(thin), batch(2_000_000),
			&raft.AppendEntriesResponse{})
		if err == nil {
			if took := time.Since(begun); took < timeout {
				t.Errorf("2 MB over 1 MiB/s took %v: the link is not thin", took)
			}
			break
		}
		t.Logf("tried again after %v: %v", time.Since(begun), err)
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	close(ended)
	<-over
	for _, tr := range transports {
		tr.CloseStreams()
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
}

// newThinProxy returns the address of a proxy that passes so many bytes a second to another address.
func newThinProxy(t *testing.T, to string, perSecond int) string {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := dialTCP(context.Background(), to)
			if err != nil {
				_ = from.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(from, there)
				_ = from.Close()
			}()
			go func() {
				defer there.Close()
				const parts = 50
				pace := time.NewTicker(time.Second / parts)
				defer pace.Stop()
				for {
					if _, err := io.CopyN(there, from, int64(perSecond/parts)); err != nil {
						return
					}
					<-pace.C
				}
			}()
		}
	}()
	return listener.Addr().String()
}
