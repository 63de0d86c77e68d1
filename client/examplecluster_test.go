package client_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/test/onenode"
)

// TestMain ends the cluster of the examples.
func TestMain(m *testing.M) {
	code := m.Run()
	if examples.stop != nil {
		examples.stop()
	}
	os.Exit(code)
}

// examples is a whole cluster of one node, which the first example starts.
var examples struct {
	once    sync.Once
	address string
	client  *client.Client
	stop    func()
}

// check ends an example that fails.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// inExample returns a new session and its tree, of which an example has a part of its own.
func inExample(root string) (context.Context, *client.Session, *client.Tree) {
	examples.once.Do(startExamples)
	ctx := context.Background()
	s, err := examples.client.Open(ctx, client.SessionOptions{Timeout: 30 * time.Second})
	check(err)
	_, there, err := s.Tree().Exists(ctx, root)
	check(err)
	if !there {
		_, err = s.Tree().Create(ctx, root, nil, client.CreateOptions{})
		check(err)
	}
	in, err := s.Tree().Chroot(root)
	check(err)
	return ctx, s, in
}

// newExampleClient returns another client of the cluster.
func newExampleClient() *client.Client {
	c, err := client.New(client.Config{Endpoints: []string{examples.address}})
	check(err)
	return c
}

func startExamples() {
	cluster, err := onenode.Start()
	check(err)
	examples.address = cluster.Endpoints[0]
	examples.client = newExampleClient()
	examples.stop = func() {
		check(examples.client.Close())
		check(cluster.Stop())
	}
}
