package whole_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/node/config"
	"holdfast/test/whole"
	"holdfast/tree"
)

// TestWatchOfANodeThatIsCutOff: a watch that started at a read-only node, which is cut off from the others, continues
// at a node with a leader as soon as its client reaches one, and receives every change that the first node has missed
// (I11 no event missing, N5 read-write nodes first).
func TestWatchOfANodeThatIsCutOff(t *testing.T) {
	readOnly := func(cfg *config.Config) { cfg.ReadOnly = true }
	whole.RunSetup(t, whole.Setup{Change: readOnly}, func(c *whole.Cluster) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		writer := c.Client("writer")
		defer writer.Close()
		in := c.Session(writer, time.Minute).Tree()
		create := func(path string) {
			if _, err := in.Create(ctx, path, nil, client.CreateOptions{}); err != nil {
				c.T.Fatal(err)
			}
		}
		create("/before")
		alone, others := c.Names[2], c.Names[:2]
		there, err := client.New(client.Config{Endpoints: []string{alone + ":7400"}, Dial: c.Host("reader").Dial})
		if err != nil {
			c.T.Fatal(err)
		}
		if _, err = there.Tree().Get(ctx, "/before"); err != nil { // a read waits until its node has applied the write
			c.T.Fatal(err)
		}
		_ = there.Close()
		for _, n := range others {
			for _, host := range []string{alone, "app"} {
				c.Cut(n, host)
				c.Cut(host, n)
			}
		}
		time.Sleep(time.Minute) // the node is read-only
		cl, err := client.New(client.Config{
			Endpoints: []string{"n1:7400", "n2:7400", "n3:7400"}, Dial: c.Host("app").Dial, ReadOnly: true,
		})
		if err != nil {
			c.T.Fatal(err)
		}
		defer cl.Close()
		var received []string
		for e, err := range cl.Tree().Watch(ctx, tree.Root, tree.WatchRecursive) {
			switch {
			case errors.Is(err, context.Canceled):
				continue // the end
			case err != nil || e.Lost:
				c.T.Fatalf("%+v, %v", e, err)
			case e.Started:
				create("/a")
				create("/b")
				time.Sleep(10 * time.Second)
				for _, n := range others { // and the node stays cut off
					c.Heal(n, "app")
					c.Heal("app", n)
				}
				continue
			}
			if received = append(received, e.Path); e.Path == "/b" {
				create("/c")
			}
			if e.Path == "/c" {
				cancel()
			}
		}
		if want := []string{"/a", "/b", "/c"}; !slices.Equal(received, want) {
			c.T.Errorf("received %q, want %q", received, want)
		}
	})
}
