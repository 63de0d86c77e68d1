package recipes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"holdfast/client"
	"holdfast/session"
	"holdfast/tree"
)

// Health is a member's report about its own health.
type Health string

// The states of health. A member that says nothing is [Passing].
const (
	Passing  Health = "passing"
	Warning  Health = "warning"
	Critical Health = "critical"
)

// Member is a member of a group: one instance of a service.
type Member struct {
	// ID names the member in its group: a valid name of an entry.
	ID string `json:"-"`
	// Address is the member's address.
	Address string `json:"address,omitempty"`
	// Labels are further facts for others.
	Labels map[string]string `json:"labels,omitempty"`
	Health Health            `json:"health"`
	// Session is the member's session, and Token the stamp of its entry. The cluster sets both.
	Session session.ID `json:"-"`
	Token   tree.Stamp `json:"-"`
}

// MemberExistsError reports that the group has a member with the id already.
type MemberExistsError struct {
	Path string
	// Session is that of the present member.
	Session session.ID
}

func (e *MemberExistsError) Error() string {
	return fmt.Sprintf("%s: session %s is a member with this id", e.Path, e.Session)
}

// Group is a set of members, such as a service and its instances. Each member belongs to a session and disappears with
// it. Safe for concurrent use.
//
//	          Join
//	away  ----------> MEMBER ---+
//	  ^                 |  ^    | Set
//	  |                 |  +----+
//	  | Leave, removed, |
//	  | session ends    |
//	  +-----------------+
//
// A dead member is shown until its session has expired. A client that is cut off from the cluster sees the former
// members.
type Group struct {
	in   *client.Tree
	path string
}

// NewGroup returns the group at a path of a tree, relative to that tree's chroot. It asks the cluster for nothing.
func NewGroup(in *client.Tree, path string) *Group { return &Group{in, path} }

// Join makes a session a member. The error is a [MemberExistsError] if another member has the id: a dead member keeps
// its id until its session has expired. The error is a [session.FieldError] if the group's tree is not within the
// chroot of the session's client.
func (g *Group) Join(ctx context.Context, s *client.Session, m Member, o ...Option) (*Membership, error) {
	l := line{session: s, path: g.path, o: optionsOf(o)}
	try := l.begins("group")
	data, err := m.data(g.path)
	if err == nil {
		l.in, err = entriesWithin(s, g.in)
	}
	var p *place
	if err == nil {
		p, err = handed(ctx, func(ctx context.Context) (*place, error) { return l.join(ctx, m.ID, data) })
	}
	if try.ended(err); err != nil {
		return nil, failed("join", g.path, err)
	}
	try.heldUntilOver(p)
	return &Membership{p}, nil
}

// join creates the entry of a member, and the entry above if it is missing.
func (l line) join(ctx context.Context, id string, data []byte) (*place, error) {
	path := tree.Join(l.path, id)
	for {
		made, err := l.in.Create(ctx, path, data, client.CreateOptions{
			Kind: tree.Ephemeral, LockDelay: l.o.lockDelay, ACL: l.o.acl,
		})
		switch {
		case err == nil:
			return l.placed(ctx, made.Path, made.Stat.Created).monitored(), nil
		case errors.Is(err, &tree.RefusedError{Code: tree.NodeExists}):
			stat, exists, failed := l.in.Exists(ctx, path)
			if failed != nil || exists {
				return nil, cmp.Or(failed, error(&MemberExistsError{Path: path, Session: session.ID(stat.Owner)}))
			}
		case errors.Is(err, &tree.RefusedError{Code: tree.NoParent}):
			if err = l.ensure(ctx); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// data returns the data of a member's entry. The error is a [session.FieldError].
func (m Member) data(group string) ([]byte, error) {
	if err := check(group); err != nil {
		return nil, err
	}
	if err := checkName("id", m.ID); err != nil {
		return nil, err
	}
	m.Health = cmp.Or(m.Health, Passing)
	if !slices.Contains([]Health{Passing, Warning, Critical}, m.Health) {
		return nil, &session.FieldError{Field: "health", Limit: "passing, warning or critical"}
	}
	return json.Marshal(m)
}

// Membership is a member of this process.
type Membership struct{ place *place }

// Set replaces the member's data. Its ID stays, whatever the ID in m. The error is [Membership.Err] if the membership
// is over.
func (m *Membership) Set(ctx context.Context, to Member) error {
	p := m.place
	to.ID = p.name
	data, err := to.data(p.path)
	if err == nil {
		err = p.set(ctx, data)
	}
	return failed("set member of", p.path, err)
}

// set replaces the data of the place's entry.
func (p *place) set(ctx context.Context, data []byte) error {
	if p.alive.Err() != nil {
		return context.Cause(p.alive)
	}
	done, err := p.in.Transact(ctx, tree.Transaction{
		If:   []tree.Condition{p.stillExists()},
		Then: []tree.Op{tree.Set{Path: p.entry(), Data: data, Version: tree.Any}},
	})
	if err == nil && done.Outcome.Else {
		err = ErrBroken
	}
	return err
}

// Leave removes the member from the group, as [Hold.Unlock] gives up a lock.
func (m *Membership) Leave(ctx context.Context) error {
	if err := m.Err(); err != nil {
		return failed("leave", m.place.path, err)
	}
	return failed("leave", m.place.path, m.place.left(ctx, ErrReleased))
}

// Path returns the path of the member's entry.
func (m *Membership) Path() string { return m.place.entry() }

// Done returns a channel that is closed when the membership is over.
func (m *Membership) Done() <-chan struct{} { return m.place.alive.Done() }

// Err returns nil until the membership is over, then why: as [Grant.Err].
func (m *Membership) Err() error { return context.Cause(m.place.alive) }

// View is a list of a group's members in memory, which is kept up to date by a watch. Reading it costs no message. Safe
// for concurrent use.
type View struct {
	mirror *client.Mirror
	path   string
}

// View returns a view of the group, once it has all members. Call [View.Close] at the end. ctx bounds the first filling
// alone.
func (g *Group) View(ctx context.Context) (*View, error) {
	if err := check(g.path); err != nil {
		return nil, failed("view", g.path, err)
	}
	m, err := g.in.Mirror(ctx, g.path)
	if err != nil {
		return nil, failed("view", g.path, err)
	}
	return &View{m, g.path}, nil
}

// Members returns the members that have all the labels, in the order of their ids. Entries whose data is not a member's
// are left out.
func (v *View) Members(labels map[string]string) []Member {
	var all []Member
	for path, e := range v.mirror.Walk(v.path) {
		if path == v.path || tree.Parent(path) != v.path {
			continue
		}
		m := Member{ID: tree.Name(path), Session: session.ID(e.Stat.Owner), Token: e.Stat.Created}
		if json.Unmarshal(e.Data, &m) == nil && m.has(labels) {
			all = append(all, m)
		}
	}
	return all
}

// has reports whether the member has all the labels.
func (m Member) has(labels map[string]string) bool {
	for name, want := range labels {
		if value, ok := m.Labels[name]; !ok || value != want {
			return false
		}
	}
	return true
}

// Changes returns a channel that is closed with the next change of the view after the call, and at its end.
func (v *View) Changes() <-chan struct{} { return v.mirror.Changes() }

// Err returns why the view has ended; nil while it is kept up to date.
func (v *View) Err() error { return v.mirror.Err() }

// Close ends the view. Its members stay what they were.
func (v *View) Close() { v.mirror.Close() }
