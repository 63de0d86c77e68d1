package console

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/session/words"
)

const (
	// pageSize is how many sessions, certificates and entries a page shows.
	pageSize = 100
	// maxPaths is how many ephemeral entries a session's page shows.
	maxPaths = 100
)

// search is what a person looks for among sessions.
type search struct {
	ID, Label, Owner, Principal, Scope, MinAge, MaxAge, MinLeft, MaxLeft, Order string
}

// listing is a page of sessions.
type listing struct {
	Search   search
	Sessions []session.Listed
	// Clients is what was found by a principal, nil if none was looked for.
	Clients *byPrincipal
	// Next is the query of the next page, empty after the last.
	Next template.URL
	// Total is how many sessions are replicated.
	Total uint64
}

func (c *Console) sessions(q *request) (view, error) {
	get := func(name string) string { return strings.TrimSpace(q.FormValue(name)) }
	s := search{
		get("id"), get("label"), get("owner"), get("principal"), get("scope"), get("min_age"), get("max_age"),
		get("min_left"), get("max_left"), get("order"),
	}
	if s.ID != "" {
		id, err := session.ParseID(s.ID)
		if err != nil {
			return view{}, &inputError{"id", err.Error()}
		}
		return view{to: "/ui/sessions/" + id.String()}, nil
	}
	if s.Principal != "" {
		clients, err := c.findClients(q, &s)
		return view{Page: "sessions", Title: "Sessions", Data: listing{
			Search: s, Clients: clients, Total: c.glance().SessionsGlobal,
		}}, err
	}
	o, err := s.options(q)
	if err != nil {
		return view{}, err
	}
	o.PageToken, o.PageSize = get("page"), pageSize
	page, err := q.caller.List(q.ctx, o)
	if err != nil {
		return view{}, err
	}
	found := listing{Search: s, Sessions: page.Sessions, Total: c.glance().SessionsGlobal}
	if page.Next != "" {
		found.Next = link(s.query() + "&" + query([]string{"page", page.Next}))
	}
	follows := "log"
	if o.Scope != session.ScopeGlobal {
		follows = "log sample" // no event tells of local sessions, which are in no log
	}
	return view{Page: "sessions", Title: "Sessions", Follows: firstPage(o.PageToken, follows), Data: found}, nil
}

// firstPage returns what the first page of a list follows, and nothing for a later page, which stays as it is: somebody
// reads it.
func firstPage(page, follows string) string {
	if page != "" {
		return ""
	}
	return follows
}

func (s *search) query() string {
	return query([]string{
		"label", s.Label, "owner", s.Owner, "scope", s.Scope, "min_age", s.MinAge, "max_age", s.MaxAge,
		"min_left", s.MinLeft, "max_left", s.MaxLeft, "order", s.Order,
	})
}

func (s *search) options(q *request) (o client.ListOptions, err error) {
	if o.Owner, err = nodeOf("owner", s.Owner); err != nil {
		return o, err
	}
	o.Labels = labelsOf(s.Label)
	switch s.Scope {
	case "", "any":
	case "global":
		o.Scope = session.ScopeGlobal
	case "local":
		o.Scope = session.ScopeLocal
	default:
		return o, &inputError{"scope", "must be any, global or local"}
	}
	switch s.Order {
	case "", "id":
	case "left":
		o.Soonest = true
	default:
		return o, &inputError{"order", "must be id or left"}
	}
	for _, bound := range []struct {
		name, text string
		to         *time.Duration
	}{
		{"min_age", s.MinAge, &o.MinAge},
		{"max_age", s.MaxAge, &o.MaxAge},
		{"min_left", s.MinLeft, &o.MinRemaining},
		{"max_left", s.MaxLeft, &o.MaxRemaining},
	} {
		if bound.text == "" {
			continue
		}
		if *bound.to, err = durationOf(q, bound.name); err != nil {
			return o, err
		}
	}
	return o, nil
}

// labelsOf reads KEY=VALUE, or KEY for any value; none for the empty text.
func labelsOf(text string) map[string]string {
	if text == "" {
		return nil
	}
	key, value, _ := strings.Cut(text, "=")
	return map[string]string{key: value}
}

// nodeOf reads the number of a node, 0 for the empty text.
func nodeOf(name, text string) (session.Node, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || n < 1 || n > 254 {
		return 0, &inputError{name, "must be the number of a node, 1 to 254"}
	}
	return session.Node(n), nil
}

// story is what is known of a session.
type story struct {
	ID session.ID
	// Explained has the session or its certificate.
	client.Explained
	// Sentences explain it.
	Sentences []string
	// Steps are its life, the oldest first.
	Steps []step
	// Paths are ephemeral entries, and More says that there are others.
	Paths []string
	More  bool
	// NoPaths says why entries are not shown.
	NoPaths string
	// Client is the connection that serves it; NoClient says why it is not shown.
	Client   *served
	NoClient string
}

// step is a moment of a session's life. Roughly says that it is reckoned back from a time that has passed. Untimed says
// that At is no more than what the step came after.
type step struct {
	At               time.Time
	What             string
	Roughly, Untimed bool
	Coming           bool
}

func (c *Console) session(q *request) (view, error) {
	id, err := idOf(q)
	if err != nil {
		return view{}, err
	}
	e, err := q.caller.Explain(q.ctx, id)
	if err != nil {
		return view{}, err
	}
	now := time.Now() // ages of the answer are as of now: asking for the client may take a while
	s := story{ID: id, Explained: e}
	follows := ""
	if e.Certificate != nil {
		s.Sentences, s.Steps = words.Ended(e.Certificate), lifeOfDead(e.Certificate)
	} else {
		follows = "log sample"
		s.clientOf(q)
		s.Sentences, s.Steps = words.Alive(&e.Session, &e.Vigil), s.life(now)
		page, err := q.caller.Tree().EphemeralsPage(q.ctx, client.EphemeralsOf{Session: id, PageSize: maxPaths})
		if err != nil {
			s.NoPaths = err.Error()
		}
		s.Paths, s.More = page.Paths, page.More
	}
	return view{Page: "session", Title: "Session " + id.String(), Follows: follows, Data: s}, nil
}

func idOf(q *request) (session.ID, error) {
	id, err := session.ParseID(q.PathValue("id"))
	if err != nil {
		return 0, &inputError{"id", err.Error()}
	}
	return id, nil
}

// life tells the life of a session that lives.
func (s *story) life(now time.Time) []step {
	e := &s.Explained
	steps := append([]step{opening(s.ID, e.Session.OpenedAt)}, s.moves()...)
	if e.Vigil.LastTouchAge >= 0 {
		steps = append(steps, step{
			At: now.Add(-e.Vigil.LastTouchAge), What: "newest touch that the leader has heard of", Roughly: true,
		})
	}
	if e.Vigil.VouchedAge > 0 && (e.Vigil.LastTouchAge < 0 || e.Vigil.VouchedAge < e.Vigil.LastTouchAge) {
		steps = append(steps, step{
			At: now.Add(-e.Vigil.VouchedAge), What: "the leader vouches for its node as of then", Roughly: true,
		})
	}
	if e.Vigil.Silent > 0 {
		steps = append(steps, step{
			At: now.Add(-e.Vigil.Silent), What: fmt.Sprintf("node %d was heard last: the leader has lost it", e.Session.Owner),
			Roughly: true,
		})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return a.At.Compare(b.At) })
	return append(steps, step{
		At: now.Add(e.Vigil.Remaining), What: "expires if nothing more is heard of it", Roughly: true, Coming: true,
	})
}

// opening is the first step of a session. Its id names the node that took the open.
func opening(id session.ID, at time.Time) step {
	return step{At: at, What: fmt.Sprintf("opened through node %d", id.Node())}
}

// moves tells that a session has moved, as far as that is known: the log keeps who serves a session now, and of no move
// when it was. A session that is older than its connection came to it by a move. Both are by the owner's clock if the
// owner took the open, and ids have milliseconds.
func (s *story) moves() []step {
	if opened := s.Session.OpenedAt; s.Client != nil && s.Client.Since.Truncate(time.Millisecond).After(opened) {
		return []step{{
			At: s.Client.Since, Roughly: true,
			What: fmt.Sprintf("its client connected to node %d: the session moved to this connection then or later",
				s.Session.Owner),
		}}
	}
	return hasMoved(s.ID, s.Session.Owner, s.Session.OpenedAt)
}

// hasMoved tells of a session whose owner is not the node that took the open.
func hasMoved(id session.ID, owner session.Node, opened time.Time) []step {
	if owner == id.Node() {
		return nil
	}
	return []step{{At: opened, Untimed: true, What: fmt.Sprintf("moved to node %d", owner)}}
}

// lifeOfDead tells the life of a session that has ended.
func lifeOfDead(c *session.Certificate) (steps []step) {
	steps = append(steps, opening(c.ID, c.Story.OpenedAt))
	steps = append(steps, hasMoved(c.ID, c.Owner, c.Story.OpenedAt)...)
	if c.LastTouchAge >= 0 {
		steps = append(steps, step{At: c.EndedAt.Add(-c.LastTouchAge), What: "last touch that the leader knew of"})
	}
	if c.Cause == session.CauseExpired {
		steps = append(steps, step{At: c.EndedAt.Add(-c.Story.Late), What: "due"})
	}
	return append(steps, step{At: c.EndedAt, What: c.Cause.String()})
}

func (c *Console) killSession(q *request) (act, error) {
	id, err := idOf(q)
	if err != nil {
		return act{}, err
	}
	why := q.PostForm.Get("why")
	return act{
		Title: "End session " + id.String(), Back: "/ui/sessions/" + id.String(),
		Question: fmt.Sprintf("End session %v?", id),
		Consequences: []string{
			"Nothing brings it back. Its ephemeral entries go with it: locks that it holds are free at once.",
			"Its client is told, and its certificate names you and the reason.",
		},
		do: func() (string, error) {
			killed, err := q.caller.Kill(q.ctx, []session.ID{id}, why)
			if err == nil {
				err = killed[0].Err
			}
			return fmt.Sprintf("Session %v has ended.", id), err
		},
	}, nil
}

func (c *Console) extendSession(q *request) (act, error) {
	id, err := idOf(q)
	if err != nil {
		return act{}, err
	}
	d, err := durationOf(q, "for")
	if err != nil {
		return act{}, err
	}
	return act{
		Title: "Extend session " + id.String(), Back: "/ui/sessions/" + id.String(),
		Question: fmt.Sprintf("Keep session %v for %v though it is silent?", id, d),
		Consequences: []string{
			"It does not expire before then, whether its client lives or not. 0s takes an extension back.",
		},
		do: func() (string, error) {
			return fmt.Sprintf("Session %v does not expire within %v.", id, d), q.caller.Extend(q.ctx, id, d)
		},
	}, nil
}

// graveyard is a page of certificates.
type graveyard struct {
	Cause, Owner, Label, Scope, Since string
	Certificates                      []session.Certificate
	Next, Export                      template.URL
	// Forgotten says that older certificates are not kept any more.
	Forgotten bool
}

func (c *Console) deaths(q *request) (view, error) {
	o, g, err := graves(q)
	if err != nil {
		return view{}, err
	}
	g.Export = link(query([]string{
		"cause", g.Cause, "owner", g.Owner, "label", g.Label, "scope", g.Scope, "since", g.Since,
	}))
	o.PageSize, o.PageToken = pageSize, q.FormValue("page")
	page, err := q.caller.Deaths(q.ctx, o)
	if err != nil {
		return view{}, err
	}
	g.Certificates, g.Forgotten = page.Certificates, page.Forgotten
	if page.Next != "" {
		g.Next = g.Export + link("&"+query([]string{"page", page.Next}))
	}
	follows := "log"
	if o.Local {
		follows = "sample" // as on the page of sessions
	}
	return view{Page: "deaths", Title: "Deaths", Follows: firstPage(o.PageToken, follows), Data: g}, nil
}

// graves reads which ends are to be shown.
func graves(q *request) (o client.DeathOptions, g graveyard, err error) {
	get := func(name string) string { return strings.TrimSpace(q.FormValue(name)) }
	g = graveyard{Cause: get("cause"), Owner: get("owner"), Label: get("label"), Scope: get("scope"), Since: get("since")}
	if o.Owner, err = nodeOf("owner", g.Owner); err != nil {
		return o, g, err
	}
	for key, value := range labelsOf(g.Label) {
		o.Labels = session.Labels{{Key: key, Value: value}}
	}
	switch g.Cause {
	case "", "any":
	case session.CauseClosed.String():
		o.Cause = session.CauseClosed
	case session.CauseExpired.String():
		o.Cause = session.CauseExpired
	case session.CauseKilled.String():
		o.Cause = session.CauseKilled
	default:
		return o, g, &inputError{"cause", "must be any, closed, expired or killed"}
	}
	switch g.Scope {
	case "", "global":
	case "local":
		o.Local = true
	default:
		return o, g, &inputError{"scope", "must be global or local"}
	}
	if g.Since != "" {
		d, err := durationOf(q, "since")
		if err != nil {
			return o, g, err
		}
		o.Since = time.Now().Add(-d)
	}
	return o, g, nil
}
