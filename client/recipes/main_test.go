package recipes_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/test/onenode"
)

// started is the cluster of the examples; nil before the first example calls cluster.
var started *onenode.Cluster

var cluster = sync.OnceValues(func() (c *onenode.Cluster, err error) {
	started, err = onenode.Start()
	return started, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if started != nil {
		if err := started.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// with runs an example with a new session.
func with(example func(ctx context.Context, s *client.Session) error) {
	err := sessions(1, func(ctx context.Context, all []*client.Session) error { return example(ctx, all[0]) })
	if err != nil {
		fmt.Println(err)
	}
}

func sessions(number int, example func(ctx context.Context, all []*client.Session) error) error {
	c, err := cluster()
	if err != nil {
		return err
	}
	cl, err := client.New(client.Config{Endpoints: c.Endpoints})
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all []*client.Session
	for range number {
		s, err := cl.Open(ctx, client.SessionOptions{Timeout: 10 * time.Second})
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	return example(ctx, all)
}
