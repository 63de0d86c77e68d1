package whole

import (
	"context"
	"errors"
	"os"
	"time"

	"holdfast/client"
	"holdfast/node"
	"holdfast/session"
	"holdfast/test/loopback"
)

// Loopback is a cluster of one node on loopback, for examples: they run on the wall clock.
type Loopback struct {
	// Endpoints are for [client.Config].
	Endpoints []string

	node *Life
	dir  string
}

// NewLoopback starts the node, and returns when it serves a tree.
func NewLoopback() (*Loopback, error) {
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		return nil, err
	}
	at, err := loopback.Own(4)
	if err != nil {
		return nil, err
	}
	n, err := Begin(onLoopback(at, dir)[0], node.Options{})
	if err != nil {
		return nil, err
	}
	l := &Loopback{Endpoints: at[:1], node: n, dir: dir}
	if err := n.Serves(); err != nil {
		return nil, err
	}
	return l, l.planted(context.Background())
}

// planted waits until the node serves a tree.
func (l *Loopback) planted(ctx context.Context) error {
	c, err := client.New(client.Config{Endpoints: l.Endpoints})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	for again := time.NewTicker(10 * time.Millisecond); ; <-again.C {
		if _, err := c.Tree().Get(ctx, "/"); !errors.Is(err, session.ErrNoTree) {
			return err
		}
	}
}

// Stop ends the node and removes its data.
func (l *Loopback) Stop() error { return errors.Join(l.node.Stop(), os.RemoveAll(l.dir)) }
