package recipes_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/test/whole"
)

// started is the cluster of the examples; nil before the first of them asks for it with loopback.
var started *whole.Loopback

var loopback = sync.OnceValues(func() (l *whole.Loopback, err error) {
	started, err = whole.NewLoopback()
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

// with runs an example with a session of its own.
func with(example func(ctx context.Context, s *client.Session) error) {
	err := sessions(1, func(ctx context.Context, all []*client.Session) error { return example(ctx, all[0]) })
	if err != nil {
		fmt.Println(err)
	}
}

func sessions(number int, example func(ctx context.Context, all []*client.Session) error) error {
	l, err := loopback()
	if err != nil {
		return err
	}
	c, err := client.New(client.Config{Endpoints: l.Endpoints})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all []*client.Session
	for range number {
		s, err := c.Open(ctx, client.SessionOptions{Timeout: 10 * time.Second})
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	return example(ctx, all)
}
