package system

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Codes of the requests of the recipe, and of answers.
const (
	zooDelete      = 2
	zooGetChildren = 8

	zooNodeExists = -110

	zooSequentialEphemeral = 3          // flags of a create
	zooAnyVersion          = 1<<32 - 1  // of a delete
	zooEntry               = "/waiter-" // before the number that the server adds
)

// errEntryExists says that there is an entry at a path.
var errEntryExists = errors.New("the entry exists")

// Contest starts clients that use the recipe of ZooKeeper's documentation, "Locks": each makes a sequential ephemeral
// entry, reads all children, and watches the entry before its own. When that has gone, it reads all children again.
func (e *ensemble) Contest(ctx context.Context, servers []int) (Contest, error) {
	return contest(ctx, servers, func(ctx context.Context, server int) (locker, error) {
		return newZooLocker(ctx, e.addresses[server])
	})
}

// Entries asks the leader for its newest zxid: the lower half counts the entries of its epoch.
func (e *ensemble) Entries(ctx context.Context) (uint64, error) {
	leader, err := e.Leader(ctx)
	if err != nil {
		return 0, err
	}
	answer, err := e.report(ctx, leader)
	if err != nil {
		return 0, err
	}
	return zooCounter(answer)
}

// zooCounter reads the zxid of a report.
func zooCounter(report string) (uint64, error) {
	_, zxid, ok := strings.Cut(report, "Zxid: 0x")
	if !ok {
		return 0, errors.New("srvr: no line Zxid")
	}
	zxid, _, _ = strings.Cut(zxid, "\n")
	n, err := strconv.ParseUint(strings.TrimSpace(zxid), 16, 64)
	return n & (1<<32 - 1), err
}

// zooLocker is a session that contends.
type zooLocker struct {
	conn    *zooConn
	session *zooSession
	// own is the path of its entry.
	own string
	// fired gets the events of its watch.
	fired chan error
}

func newZooLocker(ctx context.Context, address string) (*zooLocker, error) {
	l := &zooLocker{conn: newZooConn(ctx, address), fired: make(chan error, 1)}
	held, err := opened(ctx, l.conn)
	if err != nil {
		l.end()
		return nil, err
	}
	l.session = held.(*zooSession) //nolint:errcheck // this system's own
	l.session.mu.Lock()
	l.session.onEvent = func(err error) {
		select {
		case l.fired <- err:
		default: // the end of the connection behind an event
		}
	}
	l.session.mu.Unlock()
	if _, err = l.create(ctx, lockPath, 0); err != nil && !errors.Is(err, errEntryExists) {
		l.end()
		return nil, err
	}
	return l, nil
}

// ask sends a request and waits for what follows the header of its answer.
func (l *zooLocker) ask(ctx context.Context, kind int32, body []byte) ([]byte, error) {
	type result struct {
		answer []byte
		err    error
	}
	results := make(chan result, 1)
	l.session.request(kind, body, func(answer []byte, err error) { results <- result{bytes.Clone(answer), err} })
	select {
	case r := <-results:
		return r.answer, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// create makes an entry without data that everybody may change, and returns its path.
func (l *zooLocker) create(ctx context.Context, path string, flags uint32) (string, error) {
	b := zooBytes(zooBytes(nil, []byte(path)), nil)
	b = zooInts(b, 1, zooAll)
	b = zooBytes(zooBytes(b, []byte("world")), []byte("anyone"))
	answer, err := l.ask(ctx, zooCreate, zooInts(b, flags))
	if err != nil {
		return "", err
	}
	made, err := zooData(answer)
	return string(made), err
}

func (l *zooLocker) lock(ctx context.Context) (err error) {
	if l.own, err = l.create(ctx, lockPath+zooEntry, zooSequentialEphemeral); err != nil {
		return err
	}
	for {
		all, err := l.children(ctx)
		if err != nil {
			return err
		}
		slices.Sort(all)
		i := slices.Index(all, strings.TrimPrefix(l.own, lockPath+"/"))
		switch {
		case i < 0:
			return fmt.Errorf("%s is not among %d children", l.own, len(all))
		case i == 0:
			return nil
		}
		// A read sets a watch only where there is an entry.
		_, err = l.ask(ctx, zooGetData, append(zooBytes(nil, []byte(lockPath+"/"+all[i-1])), 1))
		if err == nil {
			err = l.waitEvent(ctx)
		}
		if err != nil && !errors.Is(err, ErrNoEntry) {
			return err
		}
	}
}

// waitEvent waits for the event of the watch.
func (l *zooLocker) waitEvent(ctx context.Context) error {
	select {
	case err := <-l.fired:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *zooLocker) unlock(ctx context.Context) error {
	_, err := l.ask(ctx, zooDelete, zooInts(zooBytes(nil, []byte(l.own)), zooAnyVersion))
	return err
}

func (l *zooLocker) queued(ctx context.Context) (int, error) {
	all, err := l.children(ctx)
	return len(all), err
}

func (l *zooLocker) children(ctx context.Context) ([]string, error) {
	answer, err := l.ask(ctx, zooGetChildren, append(zooBytes(nil, []byte(lockPath)), 0)) // no watch
	if err != nil {
		return nil, err
	}
	return zooNames(answer)
}

func (l *zooLocker) end() { l.conn.End() }

// zooNames reads an answer that is a list of texts.
func zooNames(answer []byte) ([]string, error) {
	if len(answer) < 4 {
		return nil, fmt.Errorf("answer of %d bytes with a list", len(answer))
	}
	n := int32(binary.BigEndian.Uint32(answer)) //nolint:gosec // its bits: -1 is null
	answer = answer[4:]
	var all []string
	for range n {
		name, err := zooData(answer)
		if err != nil {
			return nil, err
		}
		all = append(all, string(name))
		answer = answer[4+len(name):]
	}
	return all, nil
}
