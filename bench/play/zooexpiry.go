package play

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"holdfast/bench/system"
	"holdfast/session"
)

// zooExpiryWork has 100 clients with a requested timeout of 10 s fall silent, 0.1 s apart, and measures until another
// client receives that the ephemeral is gone. A node grants 11.7 s to a client that requests 10 s (Z4).
func zooExpiryWork() Work {
	return zooWork("zk-expiry", []Figure{
		{"zk_gone", "a client with a timeout of 10 s falls silent: its ephemeral is gone after, median", Seconds},
		{"zk_late", "the same, less the session's timeout, median", Seconds},
		{"zk_late_first", "the earliest", Seconds},
		{"zk_late_last", "the latest", Seconds},
	}, 3*minute, zooExpiry)
}

// zooExpiry lets clients fall silent, one after the other, and measures when another client receives the event.
func zooExpiry(ctx context.Context, s *stage, c system.ZooServed) error {
	const apart = 100 * time.Millisecond
	addresses := zooOne(c)
	watcher, err := zooConnect(ctx, addresses(0), long, zooDial)
	if err != nil {
		return err
	}
	defer watcher.Close()
	all := make([]*zooMute, s.scaled(100))
	var waiting sync.WaitGroup
	defer func() {
		for _, m := range all {
			if m != nil {
				m.client.Close()
			}
		}
	}()
	for i := range all {
		if all[i], err = zooEphemeral(ctx, addresses(i), watcher, fmt.Sprintf("/mute-%d", i)); err != nil {
			return err
		}
	}
	bound, cancel := context.WithTimeout(ctx, maxFailover+time.Duration(len(all))*apart)
	defer cancel()
	for _, m := range all {
		waiting.Go(func() { m.waitGone(bound) })
	}
	for _, m := range all {
		if err = session.Sleep(ctx, apart); err != nil {
			return err
		}
		m.muted.Store(true)
	}
	waiting.Wait()
	return zooLate(s, c, all)
}

// zooLate sets the figures.
func zooLate(s *stage, c system.ZooServed, all []*zooMute) error {
	var gone, late outcome
	for _, m := range all {
		if m.err != nil {
			return m.err
		}
		took := m.gone.Sub(time.Unix(0, m.last.Load()))
		gone.took = append(gone.took, took)
		late.took = append(late.took, took-c.ZooTimeout(zooTimeout))
	}
	gone.sort()
	late.sort()
	s.set("zk_gone", gone.at(0.5).Seconds())
	s.set("zk_late", late.at(0.5).Seconds())
	s.set("zk_late_first", late.at(0).Seconds())
	s.set("zk_late_last", late.at(1).Seconds())
	return nil
}

// zooMute is a client that another one watches, and that may fall silent: its bytes then go nowhere.
type zooMute struct {
	client *zooClient
	muted  atomic.Bool
	// last is when the last byte was sent, in nanoseconds since 1970.
	last  atomic.Int64
	event <-chan zookeeper.Event
	// gone and err are set by waitGone.
	gone time.Time
	err  error
}

// zooEphemeral makes a client with an ephemeral, and watches that.
func zooEphemeral(ctx context.Context, addresses []string, watcher *zooClient, path string) (*zooMute, error) {
	m := &zooMute{}
	var err error
	if m.client, err = zooConnect(ctx, addresses, zooTimeout, m.dial); err != nil {
		return nil, err
	}
	acl := zookeeper.WorldACL(zookeeper.PermAll)
	if _, err = m.client.Create(path, nil, zookeeper.FlagEphemeral, acl); err != nil {
		return m, err
	}
	if _, err = watcher.Sync(path); err != nil {
		return m, err
	}
	there, _, event, err := watcher.ExistsW(path)
	if err == nil && !there {
		err = fmt.Errorf("%s is not there", path)
	}
	m.event = event
	return m, err
}

// waitGone waits until the ephemeral is gone.
func (m *zooMute) waitGone(ctx context.Context) {
	select {
	case e := <-m.event:
		m.gone = time.Now()
		if e.Type != zookeeper.EventNodeDeleted {
			m.err = fmt.Errorf("event %v of %s: %w", e.Type, e.Path, e.Err)
		} else if !m.muted.Load() {
			m.err = fmt.Errorf("%s is gone, and its client was not silent", e.Path)
		}
	case <-ctx.Done():
		m.err = fmt.Errorf("an ephemeral is not gone: %w", context.Cause(ctx))
	}
}

func (m *zooMute) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	if m.muted.Load() {
		return nil, errors.New("mute")
	}
	conn, err := zooDial(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return zooMuted{conn, m}, nil
}

// zooMuted is a connection of such a client.
type zooMuted struct {
	net.Conn
	mute *zooMute
}

func (c zooMuted) Write(b []byte) (int, error) {
	if c.mute.muted.Load() {
		return len(b), nil
	}
	c.mute.last.Store(time.Now().UnixNano())
	return c.Conn.Write(b)
}
