package recipes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"holdfast/client"
	"holdfast/tree"
)

// Counter is a number to which any number of sessions add, each addition exactly once (X2 writers). The counter belongs
// to no session. An entry without data counts as 0. Safe for concurrent use.
//
// An addition reads the number and writes the sum if the entry is unchanged. After a few failures in a row, the
// addition waits for a lock beside the number, so that it ends however many callers compete. An addition whose answer
// is lost counts once all the same. The outcome is unknown only to a caller whose context or session ends first.
type Counter struct {
	in   entries
	path string
	lock line
}

// optimism is how often an addition is tried before it waits for the lock.
const optimism = 3

// NotNumberError reports that the entry of a counter has something else than a number.
type NotNumberError struct {
	Path string
	Data []byte
}

func (e *NotNumberError) Error() string {
	return fmt.Sprintf("%s has %.40q in the place of a number", e.Path, e.Data)
}

// NewCounter returns the counter at a path, which counts from 0. It asks the cluster for nothing.
func NewCounter(s *client.Session, path string, o ...Option) *Counter {
	return &Counter{entriesOf(s), path, newLine(s, path+"/adding", o)}
}

// Get returns the number that the contacted node knows: never older than what this client has seen. With
// [client.Linearizable] it is the newest.
func (c *Counter) Get(ctx context.Context, o ...client.ReadOption) (int64, error) {
	n, _, err := c.read(ctx, o...)
	return n, failed("read", c.path, err)
}

// Add adds to the number, which may be negative, and returns the sum. When ctx ends first, the error wraps
// [session.ErrOutcomeUnknown] if the addition may take effect.
func (c *Counter) Add(ctx context.Context, delta int64) (sum int64, err error) {
	if err = check(c.path); err != nil {
		return 0, failed("add to", c.path, err)
	}
	for range optimism {
		if sum, err = c.try(ctx, delta); !errors.Is(err, errOvertaken) {
			return sum, failed("add to", c.path, err)
		}
	}
	added := false
	// Under ctx, not under the lock's: the lock is for order alone, and the stamp keeps the sum right.
	err = c.lock.do(ctx, writing().named("counter"), func(context.Context, tree.Stamp) error {
		for {
			if sum, err = c.try(ctx, delta); !errors.Is(err, errOvertaken) {
				added = err == nil
				return err
			}
		}
	})
	if added {
		err = nil // whatever the outcome of the lock
	}
	return sum, failed("add to", c.path, err)
}

// errOvertaken: another caller has changed the number in between.
var errOvertaken = errors.New("overtaken")

// try adds to the number once.
func (c *Counter) try(ctx context.Context, delta int64) (int64, error) {
	n, as, err := c.read(ctx, client.Linearizable())
	if err != nil {
		return 0, err
	}
	if delta > 0 && n > math.MaxInt64-delta || delta < 0 && n < math.MinInt64-delta {
		return 0, ErrOverflow
	}
	sum := []byte(strconv.FormatInt(n+delta, 10))
	if as == 0 {
		_, err = c.in.Create(ctx, c.path, sum, client.CreateOptions{Parents: true, ACL: c.lock.o.acl})
	} else {
		err = c.replace(ctx, sum, as)
	}
	if overtaken(err) {
		return 0, errOvertaken
	}
	return n + delta, err
}

// replace writes a sum over the number that was read with this stamp. The stamp identifies the number; the version does
// not, because it also fits a number that was removed and created again.
func (c *Counter) replace(ctx context.Context, sum []byte, as tree.Stamp) error {
	done, err := c.in.Transact(ctx, tree.Transaction{
		If:   []tree.Condition{{Path: c.path, Property: tree.ModifiedStamp, Is: tree.Equal, Value: uint64(as)}},
		Then: []tree.Op{tree.Set{Path: c.path, Data: sum, Version: tree.Any}},
	})
	if err == nil && done.Outcome.Else {
		err = errOvertaken
	}
	return err
}

// overtaken reports whether a write was refused because another caller has created, changed or removed the entry since
// it was read.
func overtaken(err error) bool {
	for _, code := range []tree.Code{tree.NodeExists, tree.NoNode, tree.BadVersion} {
		if errors.Is(err, &tree.RefusedError{Code: code}) {
			return true
		}
	}
	return false
}

// read returns the number and the stamp of its last write, which is 0 for a missing number.
func (c *Counter) read(ctx context.Context, o ...client.ReadOption) (n int64, as tree.Stamp, err error) {
	e, err := c.in.Get(ctx, c.path, o...)
	switch {
	case errors.Is(err, &tree.RefusedError{Code: tree.NoNode}):
		return 0, 0, nil
	case err != nil:
		return 0, 0, err
	case e.Data == nil: // created for the lock below it, after the number was removed
		return 0, e.Stat.Modified, nil
	}
	if n, err = strconv.ParseInt(string(e.Data), 10, 64); err != nil {
		return 0, 0, &NotNumberError{Path: c.path, Data: e.Data}
	}
	return n, e.Stat.Modified, nil
}
