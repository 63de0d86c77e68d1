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

// line is where contenders stand in order: ephemeral, sequential children of one entry. Those that were made earlier
// are before those that were made later. The numbers of siblings grow with the log (D4), as long as their parent
// exists, which it does as long as one of them stands.
type line struct {
	session *client.Session
	in      entries
	path    string
	// base is the recipe's own entry above path, "" if it is path.
	base string
	o    options
}

func newLine(s *client.Session, path string, all []Option) line {
	return line{session: s, in: entriesOf(s), path: path, o: optionsOf(all)}
}

// place is the place of one contender in a line. It ends when its contender leaves, when somebody removes its entry, or
// with the session.
type place struct {
	line
	// name is that of the entry: a prefix, which says what the contender wants, and ten digits.
	name  string
	token tree.Stamp
	// alone says that the line was empty when the entry was made.
	alone bool
	// alive ends with the place; its cause is why.
	alive context.Context //nolint:containedctx // a place outlives the call that makes it
	end   context.CancelCauseFunc
}

// sequenceDigits is how many digits a sequential name ends with.
const sequenceDigits = 10

// enter makes a place at the end of the line. If ctx ends first, no place stays behind.
func (l line) enter(ctx context.Context, prefix string, data []byte) (*place, error) {
	return handed(ctx, func(ctx context.Context) (*place, error) { return l.create(ctx, prefix, data) })
}

// handed returns the place that a write makes. If ctx ends first, the place that is made all the same is given up
// again. The write goes on until the cluster has answered, or the session has ended.
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

// create makes the entry of a place, and the entry above if it is missing. The answer tells whether somebody stands in
// line: who comes to an empty one need not look.
func (l line) create(ctx context.Context, prefix string, data []byte) (*place, error) {
	enter := []tree.Op{tree.Create{
		Path: tree.Join(l.path, prefix), Data: data, Sequential: true, Kind: tree.Ephemeral, Linger: l.o.linger,
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

// ensure makes the entry above the contenders, and the recipe's own, unless they are there.
func (l line) ensure(ctx context.Context) error {
	if l.base != "" {
		if err := ensure(ctx, l.in, l.base); err != nil {
			return err
		}
	}
	return ensure(ctx, l.in, l.path)
}

// ensure makes the entry above those of a recipe unless it is there.
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

// guarded begins to guard a place that has nobody ahead.
func (p *place) guarded() *place {
	go p.guard()
	return p
}

// guard ends the place when its entry is removed. What a contender has come to is its own already, so nobody waits for
// the first look: if the entry is gone by then, the place ends a moment later.
func (p *place) guard() {
	var err error
	for err == nil { // a change of the data is no removal: look again
		err = p.watch()
	}
	switch {
	case p.session.Err() != nil:
		p.end(p.session.Err())
	case errors.Is(err, ErrBroken):
		p.end(err)
	case p.alive.Err() == nil: // nobody would hear of the removal
		p.leave(fmt.Errorf("watch the own entry %s: %w", p.entry(), err))
	}
}

// watch waits until something happens to the entry. The error is [ErrBroken] if it is gone.
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

// leave ends the place, and removes its entry. It does not wait for that: see [place.left].
func (p *place) leave(why error) <-chan error {
	p.end(why)
	left := make(chan error, 1)
	go func() { left <- p.remove(context.WithoutCancel(p.alive)) }()
	return left
}

// left is leave, and waits until the entry is removed or ctx ends. The removal goes on then.
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
	mostPause  = time.Second
)

// remove removes the entry of the place, and no other one that has its name now. The error is [ErrBroken] if it is gone
// already. An entry that stayed would hold up everybody behind it. So remove waits while too many writes of the session
// wait, as when thousands of its contenders leave at once; with the session, that ends too.
func (p *place) remove(ctx context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		done, err := p.in.Transact(ctx, tree.Transaction{
			If:   []tree.Condition{p.standing()},
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

// standing is the condition that the place is still there.
func (p *place) standing() tree.Condition {
	return tree.Condition{Path: p.entry(), Property: tree.CreatedStamp, Is: tree.Equal, Value: uint64(p.token)}
}

// turn waits until nobody is left whom the place must wait for, and begins to guard it. Being first is final: nobody
// comes in before a place. So a node's own state is new enough to find it out.
//
// While it waits the place has one watch, of the one ahead. It looks at its own entry when its turn comes. If that was
// removed in the meantime, the one behind has heard of it at once, and waits for the one ahead.
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
	p.guarded()
	return nil
}

// await waits until something happens to the entry of another contender.
func (l line) await(ctx context.Context, name string) error {
	gone := client.NewOneShot()
	defer gone.Stop()
	_, exists, err := l.in.Exists(ctx, tree.Join(l.path, name), client.WithWatch(gone))
	if err == nil && exists {
		_, err = gone.Wait(ctx)
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

// rule returns the contender that a place waits for next; "" if it is its turn and its entry is still there. The error
// is [ErrBroken] if it is not.
type rule func(ctx context.Context, p *place) (string, error)

// reason returns why the waiting has ended: the end of the place comes before what it causes.
func (p *place) reason(waiting context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(p.alive), ErrReleased):
		return err // the place was exchanged for what it stood for, and ctx ended in the same moment
	case p.alive.Err() != nil:
		return context.Cause(p.alive)
	case err != nil && waiting.Err() != nil:
		return context.Cause(waiting)
	case errors.Is(err, &tree.RefusedError{Code: tree.NoNode}):
		return ErrBroken // the entry above is gone, and so is that of the place
	}
	return err
}

// before returns the nearest contender with the prefix that is before the place; "" if there is none. Among contenders
// with its own prefix it sees the place too, in the same read, and returns [ErrBroken] if its entry is gone. An entry of
// its name with another stamp is another's: numbers begin anew when somebody has removed the entry above (D4).
func (p *place) before(ctx context.Context, prefix string) (string, error) {
	digits := p.name[len(p.name)-sequenceDigits:]
	behind := client.Listing{After: prefix + digits, Backward: true, PageSize: 1}
	own := prefix+digits == p.name
	if own {
		behind.After, behind.PageSize, behind.WithStat = p.name+"-", 2, true
	}
	for one, err := range p.in.List(ctx, p.path, behind) { // reads a second page past entries of strangers alone
		switch {
		case err != nil:
			return "", err
		case own && one.Name == p.name && one.Stat.Created == p.token:
			own = false
		case own && (one.Name == p.name || !strings.HasPrefix(one.Name, p.name)):
			return "", ErrBroken
		case standsAs(one.Name, prefix):
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

// standsAs reports whether an entry's name is that of a contender with the prefix.
func standsAs(name, prefix string) bool {
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

// first returns the first contender with the prefix; "" if nobody stands in line.
func (l line) first(ctx context.Context, prefix string) (string, error) {
	for one, err := range l.in.List(ctx, l.path, client.Listing{After: prefix, PageSize: 1}) {
		switch {
		case errors.Is(err, &tree.RefusedError{Code: tree.NoNode}):
			return "", nil
		case err != nil:
			return "", err
		case standsAs(one.Name, prefix):
			return one.Name, nil
		case !strings.HasPrefix(one.Name, prefix):
			return "", nil
		}
	}
	return "", nil
}

// failed adds what was tried to an error, and leaves nil alone.
func failed(verb, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", verb, path, err)
}
