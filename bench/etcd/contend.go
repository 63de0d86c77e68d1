package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const (
	// ttl of a session in seconds, and pause before a release: as lockTimeout and passPause in bench/system.
	ttl   = 40
	pause = 150 * time.Millisecond
)

// contend plays the contest of bench/system/program.go with etcd's own client and its recipe for locks.
func contend(ctx context.Context, addresses, path string, in io.Reader, out io.Writer) error {
	c := &contest{path: path}
	for address := range strings.SplitSeq(addresses, ",") {
		if err := c.join(address); err != nil {
			return err
		}
	}
	answers := json.NewEncoder(out)
	if err := answers.Encode(answer{}); err != nil {
		return err
	}
	commands := bufio.NewScanner(in)
	for commands.Scan() {
		took, err := c.command(ctx, strings.Fields(commands.Text()))
		a := answer{Took: took}
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
	return commands.Err()
}

type answer struct {
	Took  []time.Duration `json:"took"`
	Error string          `json:"error,omitempty"`
}

// contest is clients, each with a connection and a lease of its own.
type contest struct {
	path    string
	clients []*clientv3.Client
	all     []*concurrency.Mutex
	drained chan error
}

func (c *contest) join(address string) error {
	cl, err := clientv3.New(clientv3.Config{Endpoints: []string{address}})
	if err != nil {
		return err
	}
	s, err := concurrency.NewSession(cl, concurrency.WithTTL(ttl))
	if err != nil {
		return err
	}
	c.clients = append(c.clients, cl)
	c.all = append(c.all, concurrency.NewMutex(s, c.path))
	return nil
}

func (c *contest) command(ctx context.Context, words []string) ([]time.Duration, error) {
	var numbers []int
	for _, w := range words[1:] {
		n, err := strconv.Atoi(w)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	switch {
	case words[0] == "alone" && len(numbers) == 2:
		return c.alone(ctx, c.all[numbers[0]], numbers[1])
	case words[0] == "pass" && len(numbers) == 1:
		return c.pass(ctx, numbers[0])
	case words[0] == "queue":
		return nil, c.queue(ctx)
	case words[0] == "drain":
		return c.drain(ctx)
	}
	return nil, fmt.Errorf("unknown command %q", words)
}

func (c *contest) alone(ctx context.Context, m *concurrency.Mutex, rounds int) (took []time.Duration, err error) {
	for range rounds {
		begin := time.Now()
		if err = turn(ctx, m); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
	}
	return took, nil
}

// turn locks and unlocks.
func turn(ctx context.Context, m *concurrency.Mutex) error {
	if err := m.Lock(ctx); err != nil {
		return err
	}
	return m.Unlock(ctx)
}

func (c *contest) pass(ctx context.Context, rounds int) (took []time.Duration, err error) {
	holder, next := c.all[0], c.all[1]
	if err = holder.Lock(ctx); err != nil {
		return nil, err
	}
	for range rounds {
		one, err := c.handed(ctx, holder, next)
		if err != nil {
			return nil, err
		}
		took = append(took, one)
		holder, next = next, holder
	}
	return took, holder.Unlock(ctx)
}

func (c *contest) handed(ctx context.Context, holder, next *concurrency.Mutex) (time.Duration, error) {
	var got time.Time
	locked := make(chan error, 1)
	go func() {
		err := next.Lock(ctx)
		got = time.Now()
		locked <- err
	}()
	if err := c.waitQueued(ctx, 2); err != nil {
		return 0, err
	}
	time.Sleep(pause)
	begun := time.Now()
	if err := holder.Unlock(ctx); err != nil {
		return 0, err
	}
	err := <-locked
	return got.Sub(begun), err
}

// waitQueued waits until that number of clients hold the lock or wait for it.
func (c *contest) waitQueued(ctx context.Context, number int) error {
	for {
		r, err := c.clients[0].Get(ctx, c.path+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil || r.Count == int64(number) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func (c *contest) queue(ctx context.Context) error {
	if err := c.all[0].Lock(ctx); err != nil {
		return err
	}
	c.drained = make(chan error, len(c.all))
	for _, m := range c.all[1:] {
		go func() { c.drained <- turn(ctx, m) }()
	}
	return c.waitQueued(ctx, len(c.all))
}

func (c *contest) drain(ctx context.Context) ([]time.Duration, error) {
	begin := time.Now()
	if err := c.all[0].Unlock(ctx); err != nil {
		return nil, err
	}
	for range c.all[1:] {
		if err := <-c.drained; err != nil {
			return nil, err
		}
	}
	return []time.Duration{time.Since(begin)}, nil
}
