package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/client"
	"holdfast/session"
	"holdfast/session/words"
	"holdfast/tree"
)

// requestTimeout bounds what a page waits for: the HTTP port gives an answer 10 s.
const requestTimeout = 8 * time.Second

// stopGrace is what requests under way may still take once the node stops: soon there is no port to ask.
const stopGrace = time.Second

var errElsewhere = errors.New("this address has no content of its own")

var errStopping = errors.New("this node is stopping: ask another one")

// request is a request for a page, with its caller.
type request struct {
	*http.Request
	caller *caller
	may    may
	ctx    context.Context //nolint:containedctx // a request has one
}

// view is a page: a template and its data.
type view struct {
	// Page is the template's name, which is also that of the page in the navigation.
	Page, Title string
	// Follows are the events that make the page load its content anew: "status", "log", "sample".
	Follows string
	Data    any
	// to redirects instead.
	to string
}

// frame is what the layout shows around a view.
type frame struct {
	view
	May           may
	Node          session.Node
	Cluster       string
	Version       string
	Authenticated bool
}

func (c *Console) frame(r *http.Request, v view) frame {
	return frame{
		view: v, May: mayOf(r.Context(), c.authenticated), Node: c.node, Cluster: c.cluster, Version: c.version,
		Authenticated: c.authenticated,
	}
}

// partHeader asks for the content of a page without what is around it.
const partHeader = "Holdfast-Part"

// with calls do with a request that has a caller and [requestTimeout].
func (c *Console) with(w http.ResponseWriter, r *http.Request, do func(q *request)) {
	c.called(w, r, func(q *request) {
		ctx, cancel := context.WithTimeout(q.ctx, requestTimeout)
		defer cancel()
		q.ctx = ctx
		do(q)
	})
}

// called calls do with a request that has a caller, and ends when its connection or the console does.
func (c *Console) called(w http.ResponseWriter, r *http.Request, do func(q *request)) {
	if err := checkInput(r); err != nil {
		c.fail(w, r, err)
		return
	}
	one, done, err := c.callers.of(r)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	defer done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(c.life, cancel)() //nolint:contextcheck // the earlier of the two ends counts
	do(&request{Request: r, caller: one, may: mayOf(r.Context(), c.authenticated), ctx: ctx})
}

// checkInput refuses a query that cannot be read, of which a part would count for nothing, and texts that are not
// UTF-8, which no message to a node can have.
func checkInput(r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return &inputError{"query", "must be readable: " + err.Error()}
	}
	for name, values := range r.Form {
		if !utf8.ValidString(name) || slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
			return &inputError{name, "must be text in UTF-8"}
		}
	}
	return nil
}

// page serves a page, or its content alone.
func (c *Console) page(show func(*request) (view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.with(w, r, func(q *request) {
			if r.Header.Get(partHeader) != "" {
				c.part(w, q, show)
				return
			}
			v, err := show(q)
			switch {
			case err != nil:
				c.fail(w, r, err)
			case v.to != "":
				http.Redirect(w, r, v.to, http.StatusSeeOther)
			default:
				c.show(w, r, http.StatusOK, v)
			}
		})
	}
}

// part serves the content of a page alone, or leads to the page that has it.
func (c *Console) part(w http.ResponseWriter, q *request, show func(*request) (view, error)) {
	to := ""
	body, err := q.caller.part(q.URL.String(), c.news.newest(), func() ([]byte, error) {
		v, err := show(q)
		if err != nil {
			return nil, err
		}
		if to = v.to; to != "" {
			return nil, errElsewhere // what fails is not kept for others, who would not hear where to
		}
		return c.execute("content", c.frame(q.Request, v))
	})
	switch {
	case to != "":
		http.Redirect(w, q.Request, to, http.StatusSeeOther)
	case err != nil:
		c.fail(w, q.Request, err)
	default:
		c.send(w, http.StatusOK, body)
	}
}

// show writes a page.
func (c *Console) show(w http.ResponseWriter, r *http.Request, code int, v view) {
	body, err := c.execute("layout", c.frame(r, v))
	if err != nil {
		c.logger.Error("a page cannot be shown", "page", v.Page, "error", err)
		http.Error(w, "this page cannot be shown: the node's log says why", http.StatusInternalServerError)
		return
	}
	c.send(w, code, body)
}

func (c *Console) execute(name string, f frame) ([]byte, error) {
	var b bytes.Buffer
	err := c.pages[f.Page].ExecuteTemplate(&b, name, f)
	return b.Bytes(), err
}

func (c *Console) send(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	if _, err := w.Write(body); err != nil {
		c.logger.Debug("sending a page", "error", err)
	}
}

// refuse shows why there is no page.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, code int, why string) {
	c.show(w, r, code, view{Page: "error", Title: http.StatusText(code), Data: why})
}

// inputError is what is wrong with what a person entered.
type inputError struct{ field, limit string }

func (e *inputError) Error() string { return e.field + ": " + e.limit }

// fail shows an error.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	if c.life.Err() != nil && errors.Is(err, context.Canceled) {
		err = errStopping
	}
	code := http.StatusBadGateway
	switch _, ofInput := errors.AsType[*inputError](err); {
	case ofInput, errors.Is(err, session.ErrInvalid), errors.Is(err, tree.ErrInvalid), errors.Is(err, tree.ErrPath):
		code = http.StatusBadRequest
	case errors.Is(err, session.ErrUnauthenticated):
		code = http.StatusUnauthorized
	case errors.Is(err, session.ErrForbidden), refusal(err) == tree.NoPermission:
		code = http.StatusForbidden
	case refusal(err) == tree.NoNode, errors.Is(err, session.ErrExpired):
		code = http.StatusNotFound
	case refusal(err) != 0, membersRefuse(err):
		code = http.StatusConflict
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errStopping),
		errors.Is(err, session.ErrNoLeader), errors.Is(err, client.ErrUnreachable), status.Code(err) == codes.Unavailable:
		code = http.StatusServiceUnavailable
	}
	c.refuse(w, r, code, err.Error())
}

// membersRefuse reports whether the cluster refused a change of its members.
func membersRefuse(err error) bool {
	_, refused := errors.AsType[*session.MemberRefusedError](err)
	return refused
}

// refusal returns why the tree refused a request, 0 if it did not.
func refusal(err error) tree.Code {
	if e, ok := errors.AsType[*tree.RefusedError](err); ok {
		return e.Code
	}
	return 0
}

// parse reads the templates. One that cannot be read is a fault of this package.
func parse() map[string]*template.Template {
	layout := template.Must(template.New("").Funcs(functions()).ParseFS(files, "templates/layout.html"))
	pages := make(map[string]*template.Template)
	for _, name := range []string{
		"overview", "sessions", "session", "tree", "locks", "members", "deaths", "settings", "confirm", "done", "error",
	} {
		pages[name] = template.Must(template.Must(layout.Clone()).ParseFS(files, "templates/"+name+".html"))
	}
	return pages
}

func functions() template.FuncMap {
	return template.FuncMap{
		"clean": clean, "span": words.Span, "moment": words.Moment, "bytes": words.Bytes,
		"id":     func(id session.ID) string { return id.String() },
		"owner":  func(owner uint64) string { return session.ID(owner).String() },
		"labels": func(l session.Labels) string { return words.Labels(l) },
		"count":  func(n uint64) string { return grouped(strconv.FormatUint(n, 10)) },
		"ago":    func(t time.Time) string { return ago(time.Since(t)) },
		"query":  func(pairs ...string) template.URL { return link(query(pairs)) },
		"percent": func(part, of time.Duration) int {
			if of <= 0 {
				return 0
			}
			return int(math.Round(100 * min(1, max(0, float64(part)/float64(of)))))
		},
		"causes": func() []string {
			return []string{session.CauseExpired.String(), session.CauseClosed.String(), session.CauseKilled.String()}
		},
		"u64": func(n int) uint64 { return uint64(max(0, n)) },
	}
}

// link is a query as [query] writes it, for a template: html/template would escape its = and & otherwise.
func link(query string) template.URL {
	return template.URL(query) //nolint:gosec // url.Values has escaped it
}

// query writes names and values as the query of an address.
func query(pairs []string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v.Encode()
}

// clean returns a stranger's text with what cannot be seen written out: such characters could make one text look like
// another. Escaping for HTML is the template's.
func clean(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n', r == '\t', unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// grouped puts spaces between groups of three digits.
func grouped(digits string) string {
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// ago says roughly how long a time is.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(max(0, d).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
}

// act is what a person wants to change.
type act struct {
	// Title names it, Question asks whether to do it, and Consequences say what follows.
	Title, Question string
	Consequences    []string
	// Back is the page that the person came from.
	Back string
	// do does it, and says what came of it.
	do func() (string, error)
}

// question is a page that asks back.
type question struct {
	act
	Action string
	Fields []field
}

// field is one that a form sent, and sends again.
type field struct{ Name, Value string }

// acting serves an act: it asks back, and does it once the answer is yes.
func (c *Console) acting(read func(*request) (act, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			c.fail(w, r, &inputError{"form", fmt.Sprintf("must be readable and have at most %d bytes", maxFormBytes)})
			return
		}
		c.with(w, r, func(q *request) {
			a, err := read(q)
			if err != nil {
				c.fail(w, r, err)
				return
			}
			if r.PostForm.Get("sure") != "yes" {
				asks := question{a, r.URL.Path, fieldsOf(r.PostForm)}
				c.show(w, r, http.StatusOK, view{Page: "confirm", Title: a.Title, Data: asks})
				return
			}
			result, err := a.do()
			if err != nil {
				c.fail(w, r, err)
				return
			}
			c.show(w, r, http.StatusOK, view{Page: "done", Title: a.Title, Data: done{result, a.Back}})
		})
	}
}

// done is what came of an act.
type done struct{ Result, Back string }

func fieldsOf(v url.Values) (fields []field) {
	for name := range maps.Keys(v) {
		if name != "sure" {
			fields = append(fields, field{name, v.Get(name)})
		}
	}
	return fields
}
