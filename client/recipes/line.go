package recipes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/tree"
)

// line is an ordered queue of contenders: ephemeral, sequential children of one entry, in the order of their creation.
// The numbers of siblings grow with the log (D4 sequence numbers), as long as their parent exists, and the parent
// exists as long as it has a child.
type line struct {
	session *client.Session
	in      entries
	path    string
	// base is the recipe's own entry above path, "" if path is this entry.
	base string
	o    options
}

func newLine(s *client.Session, path string, all []Option) line {
	return line{session: s, in: entriesOf(s), path: path, o: optionsOf(all)}
}

// place is the place of one contender in a line. It ends when its contender leaves, when its entry is removed, or with
// the session.
type place struct {
	line
	// name is that of the entry: a prefix, which says what the contender wants, and ten digits.
	name  string
	token tree.Stamp
	// alone reports whether the line was empty when the entry was made.
	alone bool
	// alive ends with the place; its cause is the reason.
	alive context.Context //nolint:containedctx // a place outlives the call that makes it
	end   context.CancelCauseFunc
}

// sequenceDigits is how many digits a sequential name ends with.
const sequenceDigits = 10

// enter makes a place at the end of the line. If ctx ends first, no place stays behind.
func (l line) enter(ctx context.Context, prefix string, data []byte) (*place, error) {
	return handed(ctx, func(ctx context.Context) (*place, error) { return l.create(ctx, prefix, data) })
}

// handed returns the place that a write creates. If ctx ends first, a place that is created later is given up again.
// The write continues until the cluster has answered, or the session has ended.
func handed(ctx context.Context, write func(context.Context) (*place, error)) (*place, error) {
	type result struct {
		p   *place
		err error
	}
	results := make(chan result)
	go func() {
		p, err := write(context.WithoutCancel(ctx))
		select {
		case results <- result{p, err}:
		case <-ctx.Done():
			if err == nil {
				p.leave(ErrReleased)
			}
		}
	}()
	select {
	case r := <-results:
		return r.p, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// create creates the entry of a place, and the entry above if it is missing. The answer shows whether the line was
// empty: the first contender needs no read.
func (l line) create(ctx context.Context, prefix string, data []byte) (*place, error) {
	enter := []tree.Op{tree.Create{
		Path: tree.Join(l.path, prefix), Data: data, Sequential: true, Kind: tree.Ephemeral, LockDelay: l.o.lockDelay,
		ACL: l.o.acl,
	}}
	for {
		done, err := l.in.Transact(ctx, tree.Transaction{
			If:   []tree.Condition{{Path: l.path, Property: tree.ChildCount, Is: tree.Equal, Value: 0}},
			Then: enter,
			Else: enter,
		})
		switch {
		case err == nil:
			made := done.Outcome.Ops[0]
			p := l.placed(ctx, made.Path, made.Stat.Created)
			p.alone = !done.Outcome.Else
			return p, nil
		case !errors.Is(err, &tree.RefusedError{Code: tree.NoParent}):
			return nil, err
		}
		if err := l.ensure(ctx); err != nil {
			return nil, err
		}
	}
}

// ensure creates the entry above the contenders, and the recipe's own, unless they exist.
func (l line) ensure(ctx context.Context) error {
	if l.base != "" {
		if err := ensure(ctx, l.in, l.base); err != nil {
			return err
		}
	}
	return ensure(ctx, l.in, l.path)
}

// ensure creates the entry above a recipe's entries unless it exists.
func ensure(ctx context.Context, in entries, path string) error {
	_, err := in.Create(ctx, path, nil, client.CreateOptions{Kind: tree.Container, Parents: true})
	if errors.Is(err, &tree.RefusedError{Code: tree.NodeExists}) {
		return nil
	}
	return err
}

// placed returns the place of a new entry, which ends with the session.
func (l line) placed(ctx context.Context, path string, created tree.Stamp) *place {
	p := &place{line: l, name: tree.Name(path), token: created}
	p.alive, p.end = context.WithCancelCause(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-p.session.Done():
			p.end(p.session.Err())
		case <-p.alive.Done():
		}
	}()
	return p
}

// entry returns the path of the place.
func (p *place) entry() string { return tree.Join(p.path, p.name) }

// monitored starts to monitor a place that has no contender ahead.
func (p *place) monitored() *place {
	go p.monitor()
	return p
}

// monitor ends the place when its entry is removed. The contender already holds what it waited for, so no caller waits
// for the first read of monitor: if the entry is gone by then, the place ends a moment later.
func (p *place) monitor() {
	var err error
	for err == nil { // a change of the data is no removal: watch again
		err = p.watch()
	}
	switch {
	case p.session.Err() != nil:
		p.end(p.session.Err())
	case errors.Is(err, ErrBroken):
		p.end(err)
	case p.alive.Err() == nil: // without a watch a removal would go unnoticed
		p.leave(fmt.Errorf("watch the own entry %s: %w", p.entry(), err))
	}
}

// watch waits for the next event of the entry. The error is [ErrBroken] if the entry is gone.
func (p *place) watch() error {
	changed := client.NewOneShot()
	defer changed.Stop()
	err := p.verify(p.alive, client.WithWatch(changed))
	if err == nil {
		_, err = changed.Wait(p.alive)
	}
	return err
}

// verify returns [ErrBroken] if the entry is gone.
func (p *place) verify(ctx context.Context, o ...client.ReadOption) error {
	stat, exists, err := p.in.Exists(ctx, p.entry(), o...)
	if err == nil && (!exists || stat.Created != p.token) {
		err = ErrBroken
	}
	return err
}

// leave ends the place, and removes its entry without waiting for the removal: see [place.left].
func (p *place) leave(why error) <-chan error {
	p.end(why)
	left := make(chan error, 1)
	go func() { left <- p.remove(context.WithoutCancel(p.alive)) }()
	return left
}

// left is leave, and waits until the entry is removed or ctx ends. The removal continues then.
func (p *place) left(ctx context.Context, why error) error {
	select {
	case err := <-p.leave(why):
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Between two attempts to remove an entry, when as many writes of the session wait as may wait.
const (
	firstPause = 10 * time.Millisecond
	maxPause   = time.Second
)

// remove removes the entry of the place, but no other entry that has its name now. The error is [ErrBroken] if the
// entry is gone already. An entry that stayed would block all contenders behind it. So when too many writes of the
// session are queued, as when thousands of its contenders leave at once, remove waits and retries until the session
// ends.
func (p *place) remove(ctx context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		done, err := p.in.Transact(ctx, tree.Transaction{
			If:   []tree.Condition{p.stillExists()},
			Then: []tree.Op{tree.Delete{Path: p.entry(), Version: tree.Any}},
		})
		switch {
		case err == nil && done.Outcome.Else:
			return ErrBroken
		case !errors.Is(err, session.ErrLimit), session.Sleep(ctx, pause) != nil:
			return err
		}
	}
}

// stillExists is the condition that the place is still there.
func (p *place) stillExists() tree.Condition {
	return tree.Condition{Path: p.entry(), Property: tree.CreatedStamp, Is: tree.Equal, Value: uint64(p.token)}
}

// turn waits until no contender is left whom the place must wait for, and starts to monitor the place. Being first is
// final, because later contenders line up behind. So the state of any node is new enough to decide this.
//
// While it waits the place has one watch, on the contender ahead. The place checks its own entry when its turn comes.
// If that was removed in the meantime, the contender behind has noticed at once, and waits for the contender ahead.
func (p *place) turn(ctx context.Context, ahead rule) error {
	waiting, stop := p.while(ctx)
	defer stop()
	for !p.alone {
		name, err := ahead(waiting, p)
		if err == nil && name == "" {
			break
		}
		if err == nil {
			err = p.await(waiting, name)
		}
		if err != nil {
			return p.reason(waiting, err)
		}
	}
	p.monitored()
	return nil
}

// await waits for the next event of another contender's entry.
func (l line) await(ctx context.Context, name string) error {
	deleted := client.NewOneShot()
	defer deleted.Stop()
	_, exists, err := l.in.Exists(ctx, tree.Join(l.path, name), client.WithWatch(deleted))
	if err == nil && exists {
		_, err = deleted.Wait(ctx)
	}
	return err
}

// while returns a context that ends with ctx and with the place.
func (p *place) while(ctx context.Context) (context.Context, func()) {
	waiting, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.alive, func() { cancel(context.Cause(p.alive)) })
	return waiting, func() {
		stop()
		cancel(nil)
	}
}

// rule returns the contender that a place waits for next; "" if it is the place's turn and its entry still exists. The
// error is [ErrBroken] if the entry is gone.
type rule func(ctx context.Context, p *place) (string, error)

// reason returns why the wait has ended: the end of the place takes precedence over its consequences.
func (p *place) reason(waiting context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(p.alive), ErrReleased):
		return err // the entry was exchanged for the grant, and ctx ended in the same moment
	case p.alive.Err() != nil:
		return context.Cause(p.alive)
	case err != nil && waiting.Err() != nil:
		return context.Cause(waiting)
	case errors.Is(err, &tree.RefusedError{Code: tree.NoNode}):
		return ErrBroken // the entry above is gone, and with it that of the place
	}
	return err
}

// before returns the nearest contender with the prefix that is before the place; "" if there is none. For its own
// prefix the same read covers the place's entry: before returns [ErrBroken] if the entry is gone. An entry with the
// name but another stamp belongs to another contender: numbers start anew when the entry above was removed (D4).
func (p *place) before(ctx context.Context, prefix string) (string, error) {
	digits := p.name[len(p.name)-sequenceDigits:]
	behind := client.Listing{After: prefix + digits, Backward: true, PageSize: 1}
	own := prefix+digits == p.name
	if own {
		behind.After, behind.PageSize, behind.WithStat = p.name+"-", 2, true
	}
	for one, err := range p.in.List(ctx, p.path, behind) { // needs a second page only past foreign entries
		switch {
		case err != nil:
			return "", err
		case own && one.Name == p.name && one.Stat.Created == p.token:
			own = false
		case own && (one.Name == p.name || !strings.HasPrefix(one.Name, p.name)):
			return "", ErrBroken
		case isContender(one.Name, prefix):
			return one.Name, nil
		case !strings.HasPrefix(one.Name, prefix):
			return "", nil
		}
	}
	if own {
		return "", ErrBroken
	}
	return "", nil
}

// isContender reports whether an entry's name is that of a contender with the prefix.
func isContender(name, prefix string) bool {
	digits, is := strings.CutPrefix(name, prefix)
	return is && len(digits) == sequenceDigits && strings.Trim(digits, "0123456789") == ""
}

// sequence returns the part of a contender's name that orders contenders of all prefixes.
func sequence(name string) string {
	if len(name) < sequenceDigits {
		return ""
	}
	return name[len(name)-sequenceDigits:]
}

// first returns the first contender with the prefix; "" if the line is empty.
func (l line) first(ctx context.Context, prefix string) (string, error) {
	for one, err := range l.in.List(ctx, l.path, client.Listing{After: prefix, PageSize: 1}) {
		switch {
		case errors.Is(err, &tree.RefusedError{Code: tree.NoNode}):
			return "", nil
		case err != nil:
			return "", err
		case isContender(one.Name, prefix):
			return one.Name, nil
		case !strings.HasPrefix(one.Name, prefix):
			return "", nil
		}
	}
	return "", nil
}

// failed adds the attempted action to an error, and leaves nil alone.
func failed(verb, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", verb, path, err)
}
