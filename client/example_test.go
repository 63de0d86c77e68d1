package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/tree"
)

// Example is a session and the lock of the README, for a cluster that "node dev" runs.
func Example() {
	writeReport := func(ctx context.Context, _ tree.Stamp) error { return ctx.Err() }
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
		err = recipes.NewLock(s, "/locks/report").Do(ctx, func(ctx context.Context, token tree.Stamp) error {
			return writeReport(ctx, token) // ctx ends before another client can get the lock; the storage checks the token
		})
		return errors.Join(err, s.Close(ctx))
	}
	fmt.Println(run(context.Background()))
}
