package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/client"
)

// Example is the README's, for a cluster that "node dev" runs.
func Example() {
	work := func(ctx context.Context) error { return ctx.Err() }
	run := func(ctx context.Context) error {
		c, err := client.New(client.Config{Endpoints: []string{"127.0.0.1:7400", "127.0.0.1:7410", "127.0.0.1:7420"}})
		if err != nil {
			return err
		}
		defer c.Close()
		s, err := c.Open(ctx, client.SessionOptions{Timeout: 10 * time.Second})
		if err != nil {
			return err
		}
		// s.Context() is cancelled before the cluster can have expired the session: work under it.
		err = work(s.Context())
		return errors.Join(err, s.Close(ctx))
	}
	fmt.Println(run(context.Background()))
}
