package play

import (
	"context"
	"errors"
	"fmt"
	"net"

	zookeeper "github.com/go-zookeeper/zk"

	"holdfast/bench/system"
	"holdfast/test/proc"
)

// zooKinds are the kinds of requests, in the order in which they are played: later ones need what earlier ones made.
func zooKinds() []zooKind {
	return []zooKind{
		{"create", "creates/s of 100 B", 20_000, func(c *zooClient, name string, i int) error {
			_, err := c.Create(entry(name, i), make([]byte, entryBytes), 0, zookeeper.WorldACL(zookeeper.PermAll))
			return err
		}},
		{"get", "gets/s of 100 B", 60_000, func(c *zooClient, name string, i int) error {
			data, _, err := c.Get(entry(name, i%zooCreated))
			if err == nil && len(data) != entryBytes {
				err = fmt.Errorf("%d bytes of data", len(data))
			}
			return err
		}},
		{"set", "sets/s of 100 B", 20_000, func(c *zooClient, name string, i int) error {
			_, err := c.Set(entry(name, i%zooCreated), make([]byte, entryBytes), -1)
			return err
		}},
		{"exists", "exists/s", 60_000, func(c *zooClient, name string, i int) error {
			there, _, err := c.Exists(entry(name, i%zooCreated))
			if err == nil && !there {
				err = errors.New("an entry is not there")
			}
			return err
		}},
		{"list", "lists/s of 10 children", 60_000, func(c *zooClient, _ string, _ int) error {
			names, _, err := c.Children(zooListed)
			if err == nil && len(names) != zooChildren {
				err = fmt.Errorf("%d children", len(names))
			}
			return err
		}},
		{"delete", "deletes/s", 20_000, func(c *zooClient, name string, i int) error {
			return c.Delete(entry(name, i), -1)
		}},
	}
}

// zooKind is a kind of requests.
type zooKind struct {
	key, title string
	n          int
	ask        func(c *zooClient, name string, i int) error
}

const (
	zooListed   = treeRoot + "/listed"
	zooChildren = 10
	// zooCreated entries at least are there at any scale that is played.
	zooCreated = 20
	// zooWriters is the number of clients, a third at each server.
	zooWriters = 12
	// zooWarm is the part of the requests that is made before.
	zooWarm = 4
)

// zooRequestWork makes 20,000 creates, 60,000 gets, 20,000 sets, 60,000 exists, 60,000 lists and 20,000 deletes by 12
// clients, a third at each server, 1,024 in flight. A quarter of each before them warms up.
func zooRequestWork() Work {
	var figures []Figure
	for _, k := range zooKinds() {
		figures = append(figures,
			Figure{"zk_" + k.key + "_rate", k.title + ", 1,024 in flight", PerSecond},
			Figure{"zk_" + k.key + "_p99", "one among them, p99", Seconds},
			Figure{"zk_" + k.key + "_cpu", "servers' CPU for 1 M", Seconds})
	}
	return zooWork("zk-requests", figures, 5*minute, zooRequests)
}

// zooRequests makes requests of each kind through all servers at once.
func zooRequests(ctx context.Context, s *stage, c system.ZooServed) error {
	all, _, err := zooConnectAll(ctx, zooWriters, long, zooOne(c))
	defer zooClose(ctx, all)
	if err != nil {
		return err
	}
	if err := zooPlant(all[0]); err != nil {
		return err
	}
	for name, part := range []int{zooWarm, 1} { // the first is to warm up
		for _, k := range zooKinds() {
			k.n = max(zooCreated, s.scaled(k.n)/part)
			if err := zooFlood(ctx, s, all, k, fmt.Sprint("pass-", name)); err != nil {
				return fmt.Errorf("%s: %w", k.key, err)
			}
		}
	}
	return nil
}

// zooFlood makes the requests of a kind, once what was made before is everywhere.
func zooFlood(ctx context.Context, s *stage, all []*zooClient, k zooKind, name string) error {
	if err := zooSync(all); err != nil {
		return err
	}
	before := proc.CPU(s.Servers()...)
	o, err := flood(ctx, k.n, flight, func(i int, done func(error)) {
		go func() { done(k.ask(all[i%len(all)], name, i)) }()
	})
	if err != nil {
		return err
	}
	s.set("zk_"+k.key+"_rate", o.rate())
	s.set("zk_"+k.key+"_p99", o.at(0.99).Seconds())
	s.set("zk_"+k.key+"_cpu", (proc.CPU(s.Servers()...)-before).Seconds()/float64(k.n)*1e6)
	return nil
}

// zooPlant makes the folders, and the entry that is listed.
func zooPlant(c *zooClient) error {
	paths := []string{treeRoot, zooListed}
	for i := range folders {
		paths = append(paths, folder(i))
	}
	for i := range zooChildren {
		paths = append(paths, fmt.Sprintf("%s/child-%d", zooListed, i))
	}
	for _, path := range paths {
		if _, err := c.Create(path, nil, 0, zookeeper.WorldACL(zookeeper.PermAll)); err != nil {
			return fmt.Errorf("create %s: %w", path, err)
		}
	}
	return nil
}

// zooSync lets each client see what all have written so far.
func zooSync(all []*zooClient) error {
	for _, c := range all {
		if _, err := c.Sync(treeRoot); err != nil {
			return err
		}
	}
	return nil
}

// zooConnectWork connects 5,000 clients with a session each, 64 at a time, and then closes all. 500 before them warm
// up.
func zooConnectWork() Work {
	return zooWork("zk-connects", []Figure{
		{"zk_connects_rate", "clients that connect and get a session, 64 in flight", PerSecond},
		{"zk_connects_p99", "one among them, p99", Seconds},
		{"zk_connects_cpu", "servers' CPU for 1 M", Seconds},
		{"zk_closes_rate", "clients that close their session, 64 in flight", PerSecond},
	}, 3*minute, zooConnects)
}

// zooConnects makes clients, and closes them.
func zooConnects(ctx context.Context, s *stage, c system.ZooServed) error {
	for _, n := range []int{s.many(500), s.many(5_000)} { // the first is to warm up
		before := proc.CPU(s.Servers()...)
		all, o, err := zooConnectAll(ctx, n, long, zooOne(c))
		if err != nil {
			zooClose(ctx, all)
			return err
		}
		s.set("zk_connects_rate", o.rate())
		s.set("zk_connects_p99", o.at(0.99).Seconds())
		s.set("zk_connects_cpu", (proc.CPU(s.Servers()...)-before).Seconds()/float64(n)*1e6)
		s.set("zk_closes_rate", zooClose(ctx, all).rate())
	}
	return nil
}

var zooDial = net.DialTimeout //nolint:gochecknoglobals // the client's own default
