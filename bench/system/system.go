// Package system runs clusters of servers on loopback, of Holdfast and of its peers, and speaks to them as
// clients do. All servers have their default settings, data directories of their own, and real syncs.
package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"holdfast/test/proc"
)

const (
	// startWait bounds the time from the start of the servers until they serve.
	startWait = 60 * time.Second
	// requestWait bounds one request of a client, and one attempt to connect.
	requestWait = 60 * time.Second
)

var (
	// ErrExpired says that the session has expired.
	ErrExpired = errors.New("session has expired")
	// ErrEnded says that the connection has ended.
	ErrEnded = errors.New("connection has ended")
)

// RefusedError is the answer of a server that names a time for a retry.
type RefusedError struct{ After time.Duration }

func (e *RefusedError) Error() string { return fmt.Sprintf("refused for %s", e.After) }

// System is a product, and one way to speak to it.
type System interface {
	// Name is that of a column of the results.
	Name() string
	// Start starts size servers with their data below dir, and returns once they serve.
	Start(ctx context.Context, dir string, size int) (Cluster, error)
}

// Cluster are servers of one system.
type Cluster interface {
	// Servers are the processes, in the order in which other methods count them, from 0.
	Servers() []*proc.Process
	// Restart stops all servers in order, starts them on the same data, and returns once they serve.
	Restart(ctx context.Context) error
	// Leader asks the servers which of them leads.
	Leader(ctx context.Context) (int, error)
	// Connect connects a client to a server.
	Connect(ctx context.Context, server int) (Conn, error)
	// Live returns the live heap of all servers in bytes, after a collection of each. Its error is errors.ErrUnsupported
	// if the system has no such figure.
	Live(ctx context.Context) (int64, error)
	// Stop ends the servers.
	Stop()
}

// Termed is a Cluster whose elections are counted.
type Termed interface {
	// Term returns the newest term that a server knows.
	Term(ctx context.Context) (uint64, error)
}

// Session is what a client keeps of a session: its own kind for each system.
type Session any

// Conn is a client's connection to one server. Requests do not wait for each other. Each calls its done exactly once,
// from any goroutine; done must return soon, and may make the next request. Safe for concurrent use.
type Conn interface {
	Open(timeout time.Duration, done func(Session, error))
	Close(s Session, done func(error))
	// Touch keeps all sessions of the connection alive, with as few messages as the system allows.
	Touch(done func(error))
	// End drops the connection, and leaves its sessions alone.
	End()
}

// Bounded is a Cluster that needs a file of this process for each session.
type Bounded interface {
	// Most is the largest number of sessions.
	Most() int
}

// Repeater is a Conn that repeats requests by itself, at other servers too, until they are answered.
type Repeater interface{ Repeats() }

// Follower is a Conn of a client that keeps its sessions alive, and moves them, by itself.
type Follower interface {
	// Ended returns why a session has ended, nil while it lives.
	Ended(s Session) error
	// Serves returns the number of the server that serves a session now, counted from 1, 0 for none.
	Serves(s Session) int
}

// Mover is a Conn that takes over a session that another Conn of the same cluster has opened, and lost.
type Mover interface {
	Reattach(s Session, done func(error))
}

// BulkMover is a Mover that moves many sessions with one message.
type BulkMover interface {
	Mover
	// Together is the largest number of sessions in one message now.
	Together() int
	// ReattachAll is Reattach for many. Done gets the sessions that live and were not moved, with the error of one of
	// them, and the number of those that have expired.
	ReattachAll(all []Session, done func(left []Session, expired int, err error))
}

// Promiser is a Conn whose server says how long all its sessions are safe, counted from the call.
type Promiser interface {
	Promise(done func(safe time.Duration, err error))
}

// Expirer is a Conn that reports when its sessions expire.
type Expirer interface {
	OnExpired(f func(sessions int))
}

// Counter is a Conn that can ask how many sessions live in its cluster.
type Counter interface {
	Alive(ctx context.Context) (int, error)
}

// Toucher is a Conn that touches a single session of its own.
type Toucher interface {
	TouchOne(s Session, done func(error))
}

// servers are the processes of a cluster.
type servers struct {
	all []*proc.Process
	// healthy returns nil once all serve. The cluster sets it.
	healthy func(context.Context) error
}

func (s *servers) Servers() []*proc.Process { return s.all }

func (s *servers) Stop() {
	stopped := make(chan struct{})
	for _, p := range s.all {
		go func() { p.Stop(); stopped <- struct{}{} }()
	}
	for range s.all {
		<-stopped
	}
}

func (s *servers) Restart(ctx context.Context) error {
	s.Stop()
	for _, p := range s.all {
		if err := p.Restart(); err != nil {
			return err
		}
	}
	return s.serve(ctx)
}

// start starts size servers. On an error none is left.
func start(dir string, size int, spec func(i int, dir string) (proc.Spec, error)) (servers, error) {
	var all servers
	for i := range size {
		own := filepath.Join(dir, fmt.Sprintf("n%d", i+1))
		err := os.MkdirAll(own, 0o700)
		var s proc.Spec
		if err == nil {
			s, err = spec(i, own)
		}
		var p *proc.Process
		if err == nil {
			p, err = proc.Start(s)
		}
		if err != nil {
			all.Stop()
			return servers{}, err
		}
		all.all = append(all.all, p)
	}
	return all, nil
}

// serve waits until all servers serve. On an error no server is left, and the error has the end of a server's log.
func (s *servers) serve(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	err := proc.Until(ctx, 50*time.Millisecond, s.healthy)
	if err != nil {
		s.Stop()
		return fmt.Errorf("start: %w\n%s", err, tail(s.all[0].Log()))
	}
	return nil
}

// tail returns the last lines of a file.
func tail(path string) []byte {
	const most = 2000
	read, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return read[max(0, len(read)-most):]
}
