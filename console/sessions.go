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

// search is a search for sessions.
type search struct {
	ID, Label, Owner, Principal, Scope, MinAge, MaxAge, MinLeft, MaxLeft, Order string
}

// sessionList is a page of sessions.
type sessionList struct {
	Search   search
	Sessions []session.Listed
	// Clients is the result of a search by principal, nil without such a search.
	Clients *principalSearch
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
		return view{redirect: "/ui/sessions/" + id.String()}, nil
	}
	if s.Principal != "" {
		clients, err := c.findClients(q, &s)
		return view{Page: "sessions", Title: "Sessions", Data: sessionList{
			Search: s, Clients: clients, Total: c.nodeStatus().SessionsGlobal,
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
	found := sessionList{Search: s, Sessions: page.Sessions, Total: c.nodeStatus().SessionsGlobal}
	if page.Next != "" {
		found.Next = link(s.query() + "&" + query([]string{"page", page.Next}))
	}
	reloadOn := "log"
	if o.Scope != session.ScopeGlobal {
		reloadOn = "log sample" // no event reports local sessions, which are in no log
	}
	return view{Page: "sessions", Title: "Sessions", ReloadOn: reloadFirstPage(o.PageToken, reloadOn), Data: found}, nil
}

// reloadFirstPage returns the events on which the first page of a list reloads. A later page stays unchanged while a
// person reads it.
func reloadFirstPage(page, reloadOn string) string {
	if page != "" {
		return ""
	}
	return reloadOn
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

// sessionPage is the page of one session.
type sessionPage struct {
	ID session.ID
	// Explained has the session or its certificate.
	client.Explained
	// Sentences explain why the session is alive or has ended.
	Sentences []string
	// Timeline is the session's life, the oldest step first.
	Timeline []step
	// Paths are ephemeral entries, and More reports further entries.
	Paths []string
	More  bool
	// NoPaths says why entries are not shown.
	NoPaths string
	// Client is the connection that serves the session; NoClient is why it is unknown.
	Client   *connectedSession
	NoClient string
}

// step is one moment of a session's life. Approximate: the time was computed from an elapsed time. NoTime: the time is
// unknown, and At is an earlier time. Expected: the moment has not come yet.
type step struct {
	At                  time.Time
	Text                string
	Approximate, NoTime bool
	Expected            bool
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
	now := time.Now() // ages count from the answer: the search for the client takes time
	s := sessionPage{ID: id, Explained: e}
	reloadOn := ""
	if e.Certificate != nil {
		s.Sentences, s.Timeline = words.Ended(e.Certificate), timelineOfEnded(e.Certificate)
	} else {
		reloadOn = "log sample"
		s.findClient(q)
		s.Sentences, s.Timeline = words.Alive(&e.Session, &e.Vigil), s.timelineOf(now)
		page, err := q.caller.Tree().EphemeralsPage(q.ctx, client.EphemeralsOf{Session: id, PageSize: maxPaths})
		if err != nil {
			s.NoPaths = err.Error()
		}
		s.Paths, s.More = page.Paths, page.More
	}
	return view{Page: "session", Title: "Session " + id.String(), ReloadOn: reloadOn, Data: s}, nil
}

func idOf(q *request) (session.ID, error) {
	id, err := session.ParseID(q.PathValue("id"))
	if err != nil {
		return 0, &inputError{"id", err.Error()}
	}
	return id, nil
}

// timelineOf returns the timeline of a living session.
func (s *sessionPage) timelineOf(now time.Time) []step {
	e := &s.Explained
	steps := append([]step{openedStep(s.ID, e.Session.OpenedAt)}, s.moves()...)
	if e.Vigil.LastTouchAge >= 0 {
		steps = append(steps, step{
			At: now.Add(-e.Vigil.LastTouchAge), Text: "newest touch that the leader knows of", Approximate: true,
		})
	}
	if e.Vigil.VouchedAge > 0 && (e.Vigil.LastTouchAge < 0 || e.Vigil.VouchedAge < e.Vigil.LastTouchAge) {
		steps = append(steps, step{
			At: now.Add(-e.Vigil.VouchedAge), Text: "the leader confirms the node as of this moment", Approximate: true,
		})
	}
	if e.Vigil.Silent > 0 {
		steps = append(steps, step{
			At: now.Add(-e.Vigil.Silent), Text: fmt.Sprintf("last contact of the leader with node %d", e.Session.Owner),
			Approximate: true,
		})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return a.At.Compare(b.At) })
	return append(steps, step{
		At: now.Add(e.Vigil.Remaining), Text: "expires unless another touch is received", Approximate: true, Expected: true,
	})
}

// openedStep is the first step of a session. Its id names the node that opened it.
func openedStep(id session.ID, at time.Time) step {
	return step{At: at, Text: fmt.Sprintf("opened on node %d", id.Node())}
}

// moves returns the known moves of a session: the log keeps the current owner, but no times of moves. A session that is
// older than its connection has moved to it. Both times are from the owner's clock if the owner opened the session, and
// ids have milliseconds.
func (s *sessionPage) moves() []step {
	if opened := s.Session.OpenedAt; s.Client != nil && s.Client.Since.Truncate(time.Millisecond).After(opened) {
		return []step{{
			At: s.Client.Since, Approximate: true,
			Text: fmt.Sprintf("client connected to node %d: the session moved to this connection then or later",
				s.Session.Owner),
		}}
	}
	return moved(s.ID, s.Session.Owner, s.Session.OpenedAt)
}

// moved returns a move if the owner is not the node that opened the session.
func moved(id session.ID, owner session.Node, opened time.Time) []step {
	if owner == id.Node() {
		return nil
	}
	return []step{{At: opened, NoTime: true, Text: fmt.Sprintf("moved to node %d", owner)}}
}

// timelineOfEnded returns the timeline of a session that has ended.
func timelineOfEnded(c *session.Certificate) (steps []step) {
	steps = append(steps, openedStep(c.ID, c.Story.OpenedAt))
	steps = append(steps, moved(c.ID, c.Owner, c.Story.OpenedAt)...)
	if c.LastTouchAge >= 0 {
		steps = append(steps, step{At: c.EndedAt.Add(-c.LastTouchAge), Text: "last touch that the leader knew of"})
	}
	if c.Cause == session.CauseExpired {
		steps = append(steps, step{At: c.EndedAt.Add(-c.Story.Late), Text: "due"})
	}
	return append(steps, step{At: c.EndedAt, Text: c.Cause.String()})
}

func (c *Console) killSession(q *request) (action, error) {
	id, err := idOf(q)
	if err != nil {
		return action{}, err
	}
	why := q.PostForm.Get("why")
	return action{
		Title: "Kill session " + id.String(), Back: "/ui/sessions/" + id.String(),
		Question: fmt.Sprintf("Kill session %v?", id),
		Consequences: []string{
			"This cannot be undone. Its ephemeral entries are deleted, and its locks are free at once.",
			"Its client gets an event. Its certificate records your name and the reason.",
		},
		run: func() (string, error) {
			killed, err := q.caller.Kill(q.ctx, []session.ID{id}, why)
			if err == nil {
				err = killed[0].Err
			}
			return fmt.Sprintf("Session %v was killed.", id), err
		},
	}, nil
}

func (c *Console) extendSession(q *request) (action, error) {
	id, err := idOf(q)
	if err != nil {
		return action{}, err
	}
	d, err := durationOf(q, "for")
	if err != nil {
		return action{}, err
	}
	return action{
		Title: "Extend session " + id.String(), Back: "/ui/sessions/" + id.String(),
		Question: fmt.Sprintf("Extend session %v for %v?", id, d),
		Consequences: []string{
			"It does not expire before then, even if its client is dead. 0s cancels an extension.",
		},
		run: func() (string, error) {
			return fmt.Sprintf("Session %v does not expire within %v.", id, d), q.caller.Extend(q.ctx, id, d)
		},
	}, nil
}

// deathList is a page of certificates.
type deathList struct {
	Cause, Owner, Label, Scope, Since string
	Certificates                      []session.Certificate
	Next, Export                      template.URL
	// OlderDeleted reports that older certificates have been deleted.
	OlderDeleted bool
}

func (c *Console) deaths(q *request) (view, error) {
	o, list, err := deathQuery(q)
	if err != nil {
		return view{}, err
	}
	list.Export = link(query([]string{
		"cause", list.Cause, "owner", list.Owner, "label", list.Label, "scope", list.Scope, "since", list.Since,
	}))
	o.PageSize, o.PageToken = pageSize, q.FormValue("page")
	page, err := q.caller.Deaths(q.ctx, o)
	if err != nil {
		return view{}, err
	}
	list.Certificates, list.OlderDeleted = page.Certificates, page.Forgotten
	if page.Next != "" {
		list.Next = list.Export + link("&"+query([]string{"page", page.Next}))
	}
	reloadOn := "log"
	if o.Local {
		reloadOn = "sample" // as on the page of sessions
	}
	return view{Page: "deaths", Title: "Deaths", ReloadOn: reloadFirstPage(o.PageToken, reloadOn), Data: list}, nil
}

// deathQuery reads the filters of a list of deaths.
func deathQuery(q *request) (o client.DeathOptions, list deathList, err error) {
	get := func(name string) string { return strings.TrimSpace(q.FormValue(name)) }
	list = deathList{Cause: get("cause"), Owner: get("owner"), Label: get("label"), Scope: get("scope"), Since: get("since")}
	if o.Owner, err = nodeOf("owner", list.Owner); err != nil {
		return o, list, err
	}
	for key, value := range labelsOf(list.Label) {
		o.Labels = session.Labels{{Key: key, Value: value}}
	}
	switch list.Cause {
	case "", "any":
	case session.CauseClosed.String():
		o.Cause = session.CauseClosed
	case session.CauseExpired.String():
		o.Cause = session.CauseExpired
	case session.CauseKilled.String():
		o.Cause = session.CauseKilled
	default:
		return o, list, &inputError{"cause", "must be any, closed, expired or killed"}
	}
	switch list.Scope {
	case "", "global":
	case "local":
		o.Local = true
	default:
		return o, list, &inputError{"scope", "must be global or local"}
	}
	if list.Since != "" {
		d, err := durationOf(q, "since")
		if err != nil {
			return o, list, err
		}
		o.Since = time.Now().Add(-d)
	}
	return o, list, nil
}
