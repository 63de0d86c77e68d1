package play

import (
	"bytes"
	"context"
	"fmt"

	"holdfast/bench/system"
	"holdfast/test/proc"
	"holdfast/tree"
)

const (
	// entryBytes is the data of an entry.
	entryBytes = 100
	// folders is the number of entries that others are made below.
	folders = 64
	// writersEach is the number of sessions of a connection that write. Each may have 256 writes in flight.
	writersEach = 4
	// treeRoot is above all entries of these works.
	treeRoot = "/bench"
)

// writer is a session that writes, and its connection.
type writer struct {
	system.Conn
	entries system.Treed
	session system.Session
}

// writers opens sessions that write: each for every connection to every server.
func writers(ctx context.Context, conns []system.Conn, each int) ([]writer, error) {
	all := make([]writer, each*len(conns))
	for i := range all {
		c := conns[i%len(conns)]
		entries := c.(system.Treed) //nolint:errcheck // the work needs it
		all[i] = writer{Conn: c, entries: entries}
	}
	_, err := flood(ctx, len(all), flight, func(i int, done func(error)) {
		all[i].entries.OpenWriter(long, func(held system.Session, err error) {
			all[i].session = held
			done(err)
		})
	})
	return all, err
}

// planted is a cluster with connections to all servers, sessions that write, and entries to write below.
type planted struct {
	conns   []system.Conn
	writers []writer
	kept    *keeping
}

// plant connects to all servers and makes the folders.
func plant(ctx context.Context, s *stage) (*planted, error) {
	conns, err := connectAll(ctx, s, 1)
	if err != nil {
		return nil, err
	}
	p := &planted{conns: conns, kept: keep(ctx, conns, short)}
	if p.writers, err = writers(ctx, conns, writersEach); err == nil {
		_, err = flood(ctx, 1+folders, 1, func(i int, done func(error)) {
			path := treeRoot
			if i > 0 {
				path = folder(i)
			}
			p.writers[0].create(path, tree.Persistent, done)
		})
	}
	if err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

func (p *planted) end() {
	p.kept.stop()
	endAll(p.conns)
}

// creating creates entries through all writers in turn.
func (p *planted) creating(name string, kind tree.Kind) request {
	return func(i int, done func(error)) {
		p.writers[i%len(p.writers)].create(entry(name, i), kind, done)
	}
}

func (w writer) create(path string, kind tree.Kind, done func(error)) {
	w.entries.Create(w.session, path, make([]byte, entryBytes), kind, done)
}

// read reads an entry, and compares its data.
func (w writer) read(path string, done func(error)) {
	w.entries.Read(w.session, path, compared(path, done))
}

// compared compares the data of an entry that was read.
func compared(path string, done func(error)) func([]byte, error) {
	return func(data []byte, err error) {
		if err == nil && !bytes.Equal(data, make([]byte, entryBytes)) {
			err = fmt.Errorf("%s has the data %q", path, data)
		}
		done(err)
	}
}

func folder(i int) string { return fmt.Sprintf("%s/folder-%02d", treeRoot, i%folders) }

// entry is the path of the i-th entry with a name.
func entry(name string, i int) string { return fmt.Sprintf("%s/%s-%08d", folder(i), name, i) }

// followerWork makes 400 creates of entries with 100 B, one after the other, through the leader and through a follower
// in turns of 100.
func followerWork() Work {
	return Work{
		Name: "follower",
		Figures: []Figure{
			{"create_leader_p50", "create of 100 B by one client through the leader, p50", Seconds},
			{"create_leader_p99", "the same, p99", Seconds},
			{"create_follower_p50", "create of 100 B by one client through a follower, p50", Seconds},
			{"create_follower_p99", "the same, p99", Seconds},
		},
		bound: 3 * minute,
		needs: can[system.Treed],
		play:  createByOne,
	}
}

// createByOne creates entries one after the other through the leader and through a follower, in turns.
func createByOne(ctx context.Context, s *stage) error {
	p, err := plant(ctx, s)
	if err != nil {
		return err
	}
	defer p.end()
	return p.byOne(ctx, s, "create", func(w writer, turn, i int, done func(error)) {
		w.create(entry(fmt.Sprintf("turn-%d", turn), i), tree.Persistent, done)
	})
}

// byOne makes requests one after the other, through the leader and through a follower in turns, and sets their
// latencies.
func (p *planted) byOne(ctx context.Context, s *stage, key string, request func(w writer, turn, i int, done func(error)),
) error {
	leader, err := s.Leader(ctx)
	if err != nil {
		return err
	}
	const turns = 5
	names := []string{"leader", "follower"}
	took := make([]outcome, len(names))
	for turn := range turns * len(names) {
		which := turn % len(names)
		w := p.writers[(leader+which)%len(s.Servers())]
		o, err := flood(ctx, s.scaled(100), 1, func(i int, done func(error)) { request(w, turn, i, done) })
		if err != nil {
			return err
		}
		if turn >= len(names) { // the first turn of each is to warm up
			took[which].took = append(took[which].took, o.took...)
		}
	}
	for i, name := range names {
		took[i].sort()
		s.set(key+"_"+name+"_p50", took[i].at(0.5).Seconds())
		s.set(key+"_"+name+"_p99", took[i].at(0.99).Seconds())
	}
	return nil
}

// newestWork makes 400 linearizable reads of an entry of 100 B, one after the other, through the leader and through a
// follower in turns of 100.
func newestWork() Work {
	return Work{
		Name: "linear-read",
		Figures: []Figure{
			{"linear_leader_p50", "linearizable read by one client through the leader, p50", Seconds},
			{"linear_leader_p99", "the same, p99", Seconds},
			{"linear_follower_p50", "linearizable read by one client through a follower, p50", Seconds},
			{"linear_follower_p99", "the same, p99", Seconds},
		},
		bound: 3 * minute,
		needs: can[system.Newest],
		play:  newestByOne,
	}
}

// newestByOne reads an entry again and again.
func newestByOne(ctx context.Context, s *stage) error {
	p, err := plant(ctx, s)
	if err != nil {
		return err
	}
	defer p.end()
	path := entry("newest", 0)
	if _, err = flood(ctx, 1, 1, p.creating("newest", tree.Persistent)); err != nil {
		return err
	}
	return p.byOne(ctx, s, "linear", func(w writer, _, _ int, done func(error)) {
		//nolint:errcheck // the work needs it
		w.entries.(system.Newest).ReadNewest(w.session, path, compared(path, done))
	})
}

// createWork makes 40,000 creates of entries with 100 B, persistent and then ephemeral, by four sessions at each
// server, 1,024 in flight. 4,000 before them warm up.
func createWork() Work {
	return Work{
		Name: "creates",
		Figures: []Figure{
			{"creates_persistent_rate", "creates/s of 100 B, 1,024 in flight", PerSecond},
			{"creates_persistent_p99", "a create among them, p99", Seconds},
			{"creates_persistent_cpu", "servers' CPU for 1 M creates", Seconds},
			{"creates_ephemeral_rate", "creates/s of ephemerals of 100 B, 1,024 in flight", PerSecond},
			{"creates_ephemeral_p99", "a create among them, p99", Seconds},
			{"creates_ephemeral_cpu", "servers' CPU for 1 M creates of ephemerals", Seconds},
		},
		bound: 5 * minute,
		needs: can[system.Treed],
		play:  creates,
	}
}

// creates creates many entries through all servers at once.
func creates(ctx context.Context, s *stage) error {
	p, err := plant(ctx, s)
	if err != nil {
		return err
	}
	defer p.end()
	if _, err = flood(ctx, s.scaled(4_000), flight, p.creating("warm", tree.Persistent)); err != nil {
		return err
	}
	for _, kind := range []tree.Kind{tree.Persistent, tree.Ephemeral} {
		n := s.scaled(40_000)
		before := proc.CPU(s.Servers()...)
		o, err := flood(ctx, n, flight, p.creating("one-"+kind.String(), kind))
		if err != nil {
			return err
		}
		s.set("creates_"+kind.String()+"_rate", o.rate())
		s.set("creates_"+kind.String()+"_p99", o.at(0.99).Seconds())
		s.set("creates_"+kind.String()+"_cpu", (proc.CPU(s.Servers()...)-before).Seconds()/float64(n)*1e6)
	}
	return nil
}

// readWork makes 200,000 reads of 10,000 entries of 100 B, each from the contacted server's own state, 1,024 in flight.
func readWork() Work {
	return Work{
		Name: "reads",
		Figures: []Figure{
			{"reads_rate", "reads/s of 100 B at the contacted server, 1,024 in flight", PerSecond},
			{"reads_p99", "a read among them, p99", Seconds},
			{"reads_cpu", "servers' CPU for 1 M reads", Seconds},
		},
		bound: 3 * minute,
		needs: can[system.Treed],
		play:  reads,
	}
}

// reads reads entries through all servers at once.
func reads(ctx context.Context, s *stage) error {
	const entries = 10_000
	p, err := plant(ctx, s)
	if err != nil {
		return err
	}
	defer p.end()
	there := s.scaled(entries)
	if _, err = flood(ctx, there, flight, p.creating("read", tree.Persistent)); err != nil {
		return err
	}
	if err = p.everywhere(ctx, entry("read", there-1), nil); err != nil {
		return err
	}
	for _, n := range []int{s.scaled(20_000), s.scaled(200_000)} { // the first is to warm up
		before := proc.CPU(s.Servers()...)
		o, err := flood(ctx, n, flight, func(i int, done func(error)) {
			p.writers[i%len(p.writers)].read(entry("read", i*7919%there), done)
		})
		if err != nil {
			return err
		}
		s.set("reads_rate", o.rate())
		s.set("reads_p99", o.at(0.99).Seconds())
		s.set("reads_cpu", (proc.CPU(s.Servers()...)-before).Seconds()/float64(n)*1e6)
	}
	return nil
}
