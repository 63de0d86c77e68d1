package raftnet

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
)

// pipes is a network of net.Pipe: listeners by address. It must not change while it is used.
type pipes map[string]*listener

type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	// fail are errors that Accept returns first.
	fail []error
}

func (p pipes) listen(address string) *listener {
	l := &listener{conns: make(chan net.Conn), done: make(chan struct{})}
	p[address] = l
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	if len(l.fail) > 0 {
		err := l.fail[0]
		l.fail = l.fail[1:]
		return nil, err
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr is an IP address, as a real listener's is.
func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7401} }

func (p pipes) dial(ctx context.Context, address string) (net.Conn, error) {
	l := p[address]
	if l == nil {
		return nil, errors.New("no such host")
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// layer returns the layer of a node at address, and its log.
func (p pipes) layer(t *testing.T, address, cluster string, node session.Node) (*Layer, *porttest.LogBuffer) {
	t.Helper()
	log := &porttest.LogBuffer{}
	l := New(Config{
		ClusterID: cluster, Node: node, Advertise: address, Listener: p.listen(address), Dial: p.dial,
		Logger: hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Debug}),
	})
	return l, log
}

// accepting accepts connections until the test ends, and then closes them.
func accepting(l *Layer) <-chan net.Conn {
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	return accepted
}

func closeAll(t *testing.T, layers ...*Layer) {
	t.Helper()
	for _, l := range layers {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

func TestRaftSpeaksOverTheLayer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a, _ := network.layer(t, "n1.peers:7401", "c", 1)
		b, _ := network.layer(t, "n2.peers:7401", "c", 2)
		ta, tb := NewTransport(a, 0).NetworkTransport, NewTransport(b, time.Second).NetworkTransport
		if got := ta.LocalAddr(); got != "n1.peers:7401" {
			t.Errorf("raft's own address is %s, want the advertised name", got)
		}
		go func() {
			rpc := <-tb.Consumer()
			rpc.Respond(&raft.RequestVoteResponse{Term: rpc.Command.(*raft.RequestVoteRequest).Term + 1, Granted: true},
				nil)
		}()
		var answer raft.RequestVoteResponse
		if err := ta.RequestVote("2", "n2.peers:7401", &raft.RequestVoteRequest{Term: 7}, &answer); err != nil ||
			answer.Term != 8 || !answer.Granted {
			t.Errorf("got %+v, %v", answer, err)
		}
		if pipeline, err := ta.AppendEntriesPipeline("2", "n2.peers:7401"); !errors.Is(err,
			raft.ErrPipelineReplicationNotSupported) {
			t.Errorf("pipelining is on (hashicorp/raft#612): %v", err)
			if err == nil { // an open pipeline would hide this failure behind the bubble's panic
				_ = pipeline.Close()
			}
		}
		// A peer takes a request and never answers.
		begun := time.Now()
		if err := ta.RequestVote("2", "n2.peers:7401", &raft.RequestVoteRequest{Term: 7}, &answer); err == nil {
			t.Error("an RPC without an answer succeeded")
		}
		if got := time.Since(begun); got != defaultTimeout {
			t.Errorf("after %v, want %v", got, defaultTimeout)
		}
		// A connection that Close leaves open would make the bubble panic.
		for _, tr := range []*raft.NetworkTransport{tb, ta} {
			tr.CloseStreams()
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestASilentNodeIsGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a, _ := network.layer(t, "a", "c", 1)
		l := network.listen("silent")
		go func() {
			for range 2 {
				_, _ = io.Copy(io.Discard, <-l.conns)
			}
		}()
		for _, timeout := range []time.Duration{time.Second, time.Hour} {
			begun := time.Now()
			if _, err := a.Dial("silent", timeout); !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
				t.Errorf("Dial: %v", err)
			}
			if got := time.Since(begun); got != min(timeout, defaultTimeout) {
				t.Errorf("given up after %v", got)
			}
		}
		if len(a.open) != 0 {
			t.Error("a failed dial is remembered")
		}
		if _, err := a.Dial("nowhere", time.Second); err == nil || errors.Is(err, session.ErrWrongCluster) {
			t.Errorf("dialling an address without a listener: %v", err)
		}
		// Close interrupts a dial.
		network.listen("hung")
		dialled := make(chan error, 1)
		go func() {
			_, err := a.Dial("hung", time.Hour)
			dialled <- err
		}()
		synctest.Wait()
		begun := time.Now()
		closeAll(t, a)
		if err := <-dialled; !errors.Is(err, context.Canceled) || time.Since(begun) != 0 {
			t.Errorf("a dial went on for %v after Close: %v", time.Since(begun), err)
		}
	})
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

func TestAcceptGoesOnAfterErrors(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a, _ := network.layer(t, "a", "c", 1)
		b, log := network.layer(t, "b", "c", 2)
		network["b"].fail = []error{errors.New("too many open files"), errors.New("too many open files")}
		accepted := accepting(b)
		begun := time.Now()
		conn, err := a.Dial("b", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		(<-accepted).Close()
		conn.Close()
		if got := time.Since(begun); got != 2*acceptRetry {
			t.Errorf("accepted after %v, want a pause after each error", got)
		}
		if !strings.Contains(log.String(), "too many open files") {
			t.Error("the error is not logged")
		}
		closeAll(t, a, b)
	})
}
