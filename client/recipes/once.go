package recipes

import (
	"context"
	"errors"

	"holdfast/client"
	"holdfast/tree"
)

// Once runs a job once for each key, in the first session that acquires the key's lock, and keeps the result. Safe for
// concurrent use.
//
//	         first in queue             work returns nil
//	NEW -------------------> RUNNING -----------------------> DONE, with the result
//	 ^                          |
//	 |  work fails, session ends|
//	 +--------------------------+
//
// A key never has more than one result: the result is written in one transaction with the proof that its worker holds
// the key's lock. After the death of a worker another worker follows, so work may start more than once. For its
// effects outside the tree, the worker sends the fencing token, and the resource checks the token; or the effects are
// harmless when repeated.
type Once struct {
	session *client.Session
	path    string
	all     []Option
}

// NewOnce returns the jobs at a path without contacting the cluster.
func NewOnce(s *client.Session, path string, o ...Option) *Once { return &Once{s, path, o} }

const doneName = "done"

// Do returns the result of the key's job. A key is a valid name of an entry. If there is no result yet, Do waits for
// the lock of the key, and runs work under [Grant.Context] with [Grant.Token]. first reports that this call made the
// result. An error or a panic of work leaves the job to other callers; Do returns the error. A result is at most a
// megabyte, as the data of any entry.
func (o *Once) Do(ctx context.Context, key string, work func(ctx context.Context, token tree.Stamp) ([]byte, error),
) (result []byte, first bool, err error) {
	result, first, err = o.do(ctx, key, work)
	return result, first, failed("do once", tree.Join(o.path, key), err)
}

func (o *Once) do(ctx context.Context, key string, work func(context.Context, tree.Stamp) ([]byte, error),
) (result []byte, first bool, err error) {
	path, err := o.keyed(key)
	if err != nil {
		return nil, false, err
	}
	if result, err = o.done(ctx, path); !errors.Is(err, errNotDone) {
		return result, false, err
	}
	l := newLine(o.session, tree.Join(path, "lock"), o.all)
	l.base = path
	h, err := l.lock(ctx, writing().named("once"))
	if err != nil {
		return nil, false, err
	}
	err = h.during(ctx, func(ctx context.Context, token tree.Stamp) error {
		if result, err = o.done(ctx, path); !errors.Is(err, errNotDone) {
			return err
		}
		if result, err = work(ctx, token); err != nil {
			return err
		}
		failed := h.place.record(ctx, tree.Join(path, doneName), result)
		first = failed == nil
		return failed
	})
	if err != nil && !first { // a kept result stays, whatever the outcome of the lock
		return nil, false, err
	}
	return result, first, nil
}

// keyed returns the path of a key.
func (o *Once) keyed(key string) (string, error) {
	path := tree.Join(o.path, key)
	if err := errors.Join(check(o.path), checkName("key", key)); err != nil {
		return path, err
	}
	return path, check(path)
}

var errNotDone = errors.New("not done")

// done returns the result of a job.
func (o *Once) done(ctx context.Context, path string) ([]byte, error) {
	e, err := o.session.Tree(client.Linearizable()).Get(ctx, tree.Join(path, doneName))
	if errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) {
		return nil, errNotDone
	}
	return e.Data, err
}

// record makes an entry if the place is still valid.
func (p *place) record(ctx context.Context, path string, data []byte) error {
	done, err := p.in.Transact(ctx, tree.Transaction{
		If:   []tree.Condition{p.stillExists()},
		Then: []tree.Op{tree.Create{Path: path, Data: data, Kind: tree.Persistent, ACL: p.o.acl}},
	})
	if err == nil && done.Outcome.Else {
		err = ErrBroken
	}
	return err
}

// Done returns the result of the key's job, and whether it is done.
func (o *Once) Done(ctx context.Context, key string) (result []byte, done bool, err error) {
	path, err := o.keyed(key)
	if err != nil {
		return nil, false, failed("look for", path, err)
	}
	result, err = o.done(ctx, path)
	if errors.Is(err, errNotDone) {
		return nil, false, nil
	}
	return result, err == nil, failed("look for", path, err)
}

// Forget removes the result of the key's job, if there is one: the job may be done again.
func (o *Once) Forget(ctx context.Context, key string) error {
	path, err := o.keyed(key)
	if err != nil {
		return failed("forget", path, err)
	}
	err = entriesOf(o.session).Delete(ctx, tree.Join(path, doneName))
	if errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) {
		err = nil
	}
	return failed("forget", path, err)
}
