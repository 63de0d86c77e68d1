package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// WriteOption changes a write. The comment of [Tree] describes the guarantees and errors of writes.
type WriteOption func(*writeOptions)

type writeOptions struct {
	version       int64
	will          *tree.Will
	untilAnswered bool
}

// Version makes a [Tree.Set] or [Tree.Delete] take effect only if the entry's Stat.Version is n, and a [Tree.SetACL]
// only if its Stat.ACLVersion is n. Otherwise the tree refuses the write with [tree.BadVersion]. The default is
// [tree.Any].
func Version(n int64) WriteOption { return func(o *writeOptions) { o.version = n } }

// WithWill makes a write also set the session's will, if the write takes effect: a transaction that the cluster carries
// out when the session ends (U3 wills). A will without operations removes the former will. Paths are relative to the
// chroot. A [Tree.Transact] without operations only sets the will.
func WithWill(w tree.Will) WriteOption { return func(o *writeOptions) { o.will = &w } }

// UntilAnswered repeats a write until it is answered, or until ctx or the session has ended, also for a client that is
// configured with [FailInFlight]. Use it for writes that other clients depend on, such as the removal of a lock's
// entry. Package recipes uses it for all its writes.
func UntilAnswered() WriteOption { return func(o *writeOptions) { o.untilAnswered = true } }

// CreateOptions describes the entry to create. The zero value is a persistent entry.
type CreateOptions struct {
	// Kind is how the entry ends; 0 is [tree.Persistent]. A [tree.Ephemeral] ends with the session.
	Kind tree.Kind
	// Sequential appends ten digits to the path, which grow with each child that the parent ever had (D4 sequence
	// numbers).
	Sequential bool
	// Parents makes missing entries above, persistent and without data.
	Parents bool
	// TTL is how long a [tree.Expiring] entry lasts: whole milliseconds, at most [tree.MaxTTL].
	TTL time.Duration
	// LockDelay is the lock-delay of a [tree.Ephemeral] (H2 lock-delay): whole milliseconds, at most
	// [tree.MaxLockDelay].
	LockDelay time.Duration
	// ACL is the entry's own access list; nil for that of the nearest entry above which has one.
	ACL tree.ACL
}

// Created is the result of [Tree.Create].
type Created struct {
	// Path is the path of the new entry; with Sequential it includes the number.
	Path string
	// Stat is that of the new entry. Stat.Created is the fencing token of a lock (H1 fencing tokens).
	Stat tree.Stat
	// Stamp is the write's own.
	Stamp tree.Stamp
}

// Create creates an entry. nil data means no data, which differs from empty data. Like all writes Create copies the
// data: after the return the caller may change it, whatever the outcome of the write.
func (t *Tree) Create(ctx context.Context, path string, data []byte, o CreateOptions, more ...WriteOption,
) (Created, error) {
	if o.Kind == 0 {
		o.Kind = tree.Persistent
	}
	result, err := t.single(ctx, tree.Create{
		Path: path, Sequential: o.Sequential, Data: data, Kind: o.Kind, Parents: o.Parents, TTL: o.TTL, LockDelay: o.LockDelay,
		ACL: o.ACL,
	}, optionsOf(more))
	if err != nil {
		return Created{}, err
	}
	op := result.Outcome.Ops[0]
	return Created{Path: op.Path, Stat: op.Stat, Stamp: result.Stamp}, nil
}

// Changed is the result of [Tree.Set] and [Tree.SetACL].
type Changed struct {
	// Stat is the entry's, afterwards.
	Stat tree.Stat
	// Stamp is the write's own.
	Stamp tree.Stamp
}

// Set replaces an entry's data; nil means no data. See [Version].
func (t *Tree) Set(ctx context.Context, path string, data []byte, o ...WriteOption) (Changed, error) {
	with := optionsOf(o)
	result, err := t.single(ctx, tree.Set{Path: path, Data: data, Version: with.version}, with)
	if err != nil {
		return Changed{}, err
	}
	return Changed{Stat: result.Outcome.Ops[0].Stat, Stamp: result.Stamp}, nil
}

// SetACL replaces an entry's own access list. nil means the list of the nearest entry above that has one. A grant of
// the scheme [tree.Auth] means all principals of this client. See [Version].
func (t *Tree) SetACL(ctx context.Context, path string, acl tree.ACL, o ...WriteOption) (Changed, error) {
	with := optionsOf(o)
	result, err := t.single(ctx, tree.SetACL{Path: path, ACL: acl, Version: with.version}, with)
	if err != nil {
		return Changed{}, err
	}
	return Changed{Stat: result.Outcome.Ops[0].Stat, Stamp: result.Stamp}, nil
}

// Delete removes an entry without children, and returns the write's own stamp. See [Version].
func (t *Tree) Delete(ctx context.Context, path string, o ...WriteOption) (tree.Stamp, error) {
	with := optionsOf(o)
	result, err := t.single(ctx, tree.Delete{Path: path, Version: with.version}, with)
	return result.Stamp, err
}

// Removed is the result of [Tree.DeleteTree].
type Removed struct {
	// Entries is the number of removed entries, including the entry at the path.
	Entries int
	// Stamp is the write's own.
	Stamp tree.Stamp
}

// DeleteTree removes an entry and all entries below: at most [tree.MaxDeleteTree] entries, otherwise none.
func (t *Tree) DeleteTree(ctx context.Context, path string, o ...WriteOption) (Removed, error) {
	result, err := t.single(ctx, tree.DeleteTree{Path: path}, optionsOf(o))
	if err != nil {
		return Removed{}, err
	}
	return Removed{Entries: result.Outcome.Ops[0].Removed, Stamp: result.Stamp}, nil
}

// Transacted is the result of [Tree.Transact].
type Transacted struct {
	// Outcome has a result for each operation of the case that was carried out; none if that was refused. Its
	// Outcome.At is the first operation that was refused, -1 for a condition. Its paths are below the chroot.
	Outcome tree.Outcome
	// Stamp is the write's own, also for a refused write.
	Stamp tree.Stamp
}

// Transact carries out several operations, all or none (W6 transactions). The error is a [tree.WriteError] if an
// operation was refused; the result then says which one. That a condition did not hold is no error: Outcome.Else says
// so.
func (t *Tree) Transact(ctx context.Context, x tree.Transaction, o ...WriteOption) (Transacted, error) {
	result, err := t.write(ctx, x, optionsOf(o))
	if err != nil {
		return Transacted{}, t.wrap("transact", tree.Root, err)
	}
	transacted := Transacted{Outcome: result.Outcome, Stamp: result.Stamp}
	err = t.wrap("transact", tree.Root, refusalOf(result))
	if write, is := errors.AsType[*tree.WriteError](err); is {
		transacted.Outcome.Refused = write.Refused // with the path below the chroot
	}
	return transacted, err
}

func optionsOf(all []WriteOption) writeOptions {
	o := writeOptions{version: tree.Any}
	for _, set := range all {
		set(&o)
	}
	return o
}

// single writes one operation. A refusal is an error; otherwise there is one outcome.
func (t *Tree) single(ctx context.Context, op tree.Op, o writeOptions) (tree.Result, error) {
	result, err := t.write(ctx, tree.Transaction{Then: []tree.Op{op}}, o)
	if err == nil {
		err = refusalOf(result)
	}
	if err == nil && len(result.Outcome.Ops) != 1 {
		err = fmt.Errorf("node answers with %d results: must be 1", len(result.Outcome.Ops))
	}
	if err != nil {
		return tree.Result{}, t.wrap(op.Verb(), op.Target(), err)
	}
	return result, nil
}

// refusalOf returns the refusal in a result; nil if the write took effect.
func refusalOf(r tree.Result) error {
	if r.Outcome.Refused == nil {
		return nil
	}
	return &tree.WriteError{Refused: r.Outcome.Refused, At: r.Outcome.At, Stamp: r.Stamp}
}

// write carries out a write of the session. Paths go in and come out relative to the chroot.
func (t *Tree) write(ctx context.Context, x tree.Transaction, o writeOptions) (tree.Result, error) {
	if t.session == nil {
		return tree.Result{}, ErrNoSession
	}
	full, err := t.fullTransaction(x)
	if err != nil {
		return tree.Result{}, err
	}
	if o.will != nil {
		will := *o.will
		if will.Transaction, err = t.fullTransaction(will.Transaction); err != nil {
			return tree.Result{}, fmt.Errorf("will: %w", err)
		}
		o.will = &will
	}
	result, err := t.session.loop.write(ctx, t.session, full, o)
	for i := range result.Outcome.Ops {
		result.Outcome.Ops[i].Path = t.relative(result.Outcome.Ops[i].Path)
	}
	return result, err
}

// fullTransaction returns a copy of x with paths of the cluster's tree. The error is a [session.FieldError] or a
// [tree.PathError]. The copy includes the data: a write may be in flight long after its caller has given up.
func (t *Tree) fullTransaction(x tree.Transaction) (full tree.Transaction, err error) {
	if n := len(x.If) + len(x.Then) + len(x.Else); n > tree.MaxOps {
		return full, &session.FieldError{Field: "transaction", Limit: fmt.Sprintf("at most %d operations", tree.MaxOps)}
	}
	for _, c := range x.If {
		if c.Path, err = t.full(c.Path); err != nil {
			return full, err
		}
		full.If = append(full.If, c)
	}
	if full.Then, err = t.fullOps(x.Then); err != nil {
		return full, err
	}
	if full.Else, err = t.fullOps(x.Else); err != nil {
		return full, err
	}
	if full.Size() > tree.MaxRequest {
		err = &session.FieldError{Field: "transaction", Limit: fmt.Sprintf("at most %d bytes", tree.MaxRequest)}
	}
	return full, err
}

func (t *Tree) fullOps(ops []tree.Op) ([]tree.Op, error) {
	all := make([]tree.Op, 0, len(ops))
	for _, op := range ops {
		full, err := t.fullOp(op)
		if err != nil {
			return nil, err
		}
		all = append(all, full)
	}
	return all, nil
}

func (t *Tree) fullOp(op tree.Op) (tree.Op, error) {
	if op == nil || reflect.TypeOf(op).Kind() == reflect.Pointer {
		return nil, &session.FieldError{Field: "op", Limit: "an operation of package tree, not a pointer to one"}
	}
	f := fullOp{tree: t}
	op.Visit(&f)
	return f.op, f.err
}

// fullOp makes an operation with a full path, which shares no data with the caller.
type fullOp struct {
	tree *Tree
	op   tree.Op
	err  error
}

// Create implements [tree.Visitor].
func (f *fullOp) Create(op tree.Create) {
	path := f.tree.full
	if op.Sequential {
		path = f.tree.fullPrefix
	}
	if f.err = listGiven(op.ACL); f.err == nil {
		op.Data = bytes.Clone(op.Data)
		op.Path, f.err = path(op.Path)
	}
	f.op = op
}

// Set implements [tree.Visitor].
func (f *fullOp) Set(op tree.Set) {
	op.Data = bytes.Clone(op.Data)
	op.Path, f.err = f.tree.full(op.Path)
	f.op = op
}

// Delete implements [tree.Visitor].
func (f *fullOp) Delete(op tree.Delete) {
	op.Path, f.err = f.tree.full(op.Path)
	f.op = op
}

// DeleteTree implements [tree.Visitor].
func (f *fullOp) DeleteTree(op tree.DeleteTree) {
	op.Path, f.err = f.tree.full(op.Path)
	f.op = op
}

// SetACL implements [tree.Visitor].
func (f *fullOp) SetACL(op tree.SetACL) {
	if f.err = listGiven(op.ACL); f.err == nil {
		op.Path, f.err = f.tree.full(op.Path)
	}
	f.op = op
}

// Check implements [tree.Visitor].
func (f *fullOp) Check(op tree.Check) {
	op.Path, f.err = f.tree.full(op.Path)
	f.op = op
}

// listGiven refuses an access list with text that is no UTF-8.
func listGiven(acl tree.ACL) error {
	for i, g := range acl {
		field := fmt.Sprintf("acl[%d].", i)
		if err := cmp.Or(textGiven(field+"scheme", g.Scheme), textGiven(field+"id", g.ID)); err != nil {
			return err
		}
	}
	return nil
}
