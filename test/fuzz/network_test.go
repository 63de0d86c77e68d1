package fuzz

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"holdfast/transport/clientport"
)

// pipes is a network of [net.Pipe] with one listener. Every dial reaches it.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipes) dial(ctx context.Context, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// noCluster is the cluster that the client port reports in ClusterService: it has no members.
type noCluster struct{}

func (noCluster) Status(context.Context) (clientport.NodeStatus, error) {
	return clientport.NodeStatus{Node: 1}, nil
}
func (noCluster) Members() []clientport.Member { return nil }

// parts cuts a fuzzer's bytes into messages. Each message stands behind its length; bytes that begin with no valid
// length are the last message.
func parts(b []byte) (all [][]byte) {
	for len(b) > 0 {
		part, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return append(all, b)
		}
		all, b = append(all, part), b[n:]
	}
	return all
}

// appendMessage appends m to a fuzzer's bytes, in the form that parts reads.
func appendMessage(f *testing.F, to []byte, m proto.Message) []byte {
	f.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	return protowire.AppendBytes(to, b)
}

// sleep waits, in the bubble's time.
func sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
