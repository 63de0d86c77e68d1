package zk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/ratelimit"
	"holdfast/zk"
)

// hanging is a node that gives out no session.
type hanging struct{ session.Service }

func (hanging) Connect(session.Events) (session.Connection, error) { return hangingLink{}, nil }

func (hanging) State() session.NodeState { return session.NodeState{Mode: session.ModeReadWrite} }

func (hanging) Find(context.Context, session.ID, session.ReadOptions) (session.Listed, error) {
	return session.Listed{}, nil
}

type hangingLink struct{ session.Connection }

func (hangingLink) Open(ctx context.Context, _ session.OpenRequest) (session.Grant, error) {
	<-ctx.Done()
	return session.Grant{}, ctx.Err()
}

func (hangingLink) Resume(ctx context.Context, _ session.ResumeRequest) (session.Grant, error) {
	<-ctx.Done()
	return session.Grant{}, ctx.Err()
}

func (hangingLink) Disconnect() {}

// calls is a listener to which a test gives connections.
type calls chan net.Conn

func (c calls) Accept() (net.Conn, error) {
	if n, ok := <-c; ok {
		return n, nil
	}
	return nil, net.ErrClosed
}
func (c calls) Close() error { close(c); return nil }
func (calls) Addr() net.Addr { return nil }

// A client that gets no session for 30 s, neither a new one nor its former one, loses its connection without an answer:
// it tries another server.
func TestAHandshakeEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := zk.New(zk.Config{Logger: hclog.NewNullLogger(), Limiter: ratelimit.New(ratelimit.Config{})}, hanging{})
		in, served := make(calls), make(chan error, 1)
		go func() { served <- s.Serve(in) }()
		for _, id := range []session.ID{0, 7} {
			near, far := net.Pipe()
			in <- far
			began := time.Now()
			_ = near.SetDeadline(began.Add(time.Hour))
			if _, err := near.Write(connecting(id, make([]byte, 16))); err != nil {
				t.Fatal(err)
			}
			n, err := near.Read(make([]byte, 1))
			if took := time.Since(began); n != 0 || !errors.Is(err, io.EOF) || took != 30*time.Second {
				t.Errorf("session %d: %d bytes and %v after %v, want the end after 30 s", id, n, err, took)
			}
			_ = near.Close()
		}
		if err := errors.Join(s.Stop(t.Context()), <-served); err != nil {
			t.Error(err)
		}
	})
}

// ends is a log that keeps why connections have ended.
type ends struct {
	hclog.Logger
	why chan any
}

func (l ends) Debug(_ string, pairs ...any) {
	for i, key := range pairs {
		if key == "why" {
			l.why <- pairs[i+1]
		}
	}
}

// slow is a connection whose end takes a while.
type slow struct{ net.Conn }

func (s slow) Close() error {
	time.Sleep(time.Second)
	return s.Conn.Close()
}

// The log of a node that stops says so of each connection, also of those whose calls the stop has canceled.
func TestTheLogSaysThatTheNodeStops(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const clients = 3
		log := ends{hclog.NewNullLogger(), make(chan any, clients)}
		s := zk.New(zk.Config{Logger: log, Limiter: ratelimit.New(ratelimit.Config{})}, hanging{})
		in, served := make(calls), make(chan error, 1)
		go func() { served <- s.Serve(in) }()
		for range clients {
			near, far := net.Pipe()
			in <- slow{far}
			if _, err := near.Write(connecting(0, make([]byte, 16))); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if err := errors.Join(s.Stop(t.Context()), <-served); err != nil {
			t.Error(err)
		}
		for range clients {
			if why := fmt.Sprint(<-log.why); why != "the node is stopping" {
				t.Errorf("the log says %q", why)
			}
		}
	})
}
