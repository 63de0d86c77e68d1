package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/client/recipes/metrics"
	"holdfast/test/onenode"
	"holdfast/tree"
)

// Example registers the metrics of a program's locks.
func Example() {
	m := metrics.New()
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(m)
	err := with(func(ctx context.Context, s *client.Session) error {
		lock := recipes.NewLock(s, "/locks/printer", recipes.WithObserver(m))
		return lock.Do(ctx, func(ctx context.Context, _ tree.Stamp) error {
			families, err := registry.Gather() // the content of a scrape
			for _, f := range families {
				if f.GetName() == "holdfast_recipe_holding" {
					fmt.Println("held now:", f.GetMetric()[0].GetGauge().GetValue())
				}
			}
			return errors.Join(err, ctx.Err())
		})
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: held now: 1
}

// with runs an example with a new session.
func with(example func(context.Context, *client.Session) error) error {
	l, err := onenode.Start()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.New(client.Config{Endpoints: l.Endpoints})
	if err == nil {
		var s *client.Session
		if s, err = c.Open(ctx, client.SessionOptions{Timeout: 10 * time.Second}); err == nil {
			err = example(ctx, s)
		}
		err = errors.Join(err, c.Close())
	}
	return errors.Join(err, l.Stop())
}
