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

// requestTimeout bounds the time of a page: the HTTP port allows a response 10 s.
const requestTimeout = 8 * time.Second

// stopGrace is the time that pending requests get once the node stops: soon its client port is closed.
const stopGrace = time.Second

var errRedirected = errors.New("the page redirects")

var errStopping = errors.New("this node is stopping: use another node")

// request is a request for a page, with its caller.
type request struct {
	*http.Request
	caller *caller
	can    permissions
	ctx    context.Context //nolint:containedctx // the request's
}

// view is a page: a template and its data.
type view struct {
	// Page is the template's name, which is also that of the page in the navigation.
	Page, Title string
	// ReloadOn lists the events after which the page reloads its content: "status", "log", "sample".
	ReloadOn string
	Data     any
	// redirect is the address of another page, which the browser loads instead.
	redirect string
}

// frame is the layout around a view.
type frame struct {
	view
	Can           permissions
	Node          session.Node
	Cluster       string
	Version       string
	Authenticated bool
}

func (c *Console) frame(r *http.Request, v view) frame {
	return frame{
		view: v, Can: permissionsOf(r.Context(), c.authenticated), Node: c.node, Cluster: c.cluster, Version: c.version,
		Authenticated: c.authenticated,
	}
}

// contentHeader requests the content of a page without the layout.
const contentHeader = "Holdfast-Part"

// serveWithTimeout calls do with the request and its caller, bounded by [requestTimeout].
func (c *Console) serveWithTimeout(w http.ResponseWriter, r *http.Request, do func(q *request)) {
	c.serve(w, r, func(q *request) {
		ctx, cancel := context.WithTimeout(q.ctx, requestTimeout)
		defer cancel()
		q.ctx = ctx
		do(q)
	})
}

// serve calls do with the request and its caller. The request ends with its connection or the console.
func (c *Console) serve(w http.ResponseWriter, r *http.Request, do func(q *request)) {
	if err := checkInput(r); err != nil {
		c.fail(w, r, err)
		return
	}
	one, done, err := c.callers.acquire(r)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	defer done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)() //nolint:contextcheck // the earlier of the two ends counts
	do(&request{Request: r, caller: one, can: permissionsOf(r.Context(), c.authenticated), ctx: ctx})
}

// checkInput refuses an invalid query, a part of which would be ignored, and text that is not UTF-8, which no message
// to a node can contain.
func checkInput(r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return &inputError{"query", "must be a valid query: " + err.Error()}
	}
	for name, values := range r.Form {
		if !utf8.ValidString(name) || slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
			return &inputError{name, "must be text in UTF-8"}
		}
	}
	return nil
}

// page serves a page, or only its content.
func (c *Console) page(show func(*request) (view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.serveWithTimeout(w, r, func(q *request) {
			if r.Header.Get(contentHeader) != "" {
				c.serveContent(w, q, show)
				return
			}
			v, err := show(q)
			switch {
			case err != nil:
				c.fail(w, r, err)
			case v.redirect != "":
				http.Redirect(w, r, v.redirect, http.StatusSeeOther)
			default:
				c.render(w, r, http.StatusOK, v)
			}
		})
	}
}

// serveContent serves only the content of a page, or redirects to another page.
func (c *Console) serveContent(w http.ResponseWriter, q *request, show func(*request) (view, error)) {
	to := ""
	body, err := q.caller.content(q.URL.String(), c.events.newest(), func() ([]byte, error) {
		v, err := show(q)
		if err != nil {
			return nil, err
		}
		if to = v.redirect; to != "" {
			return nil, errRedirected // errors are not kept for others, who would not learn the target
		}
		return c.executeTemplate("content", c.frame(q.Request, v))
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

// render writes a page.
func (c *Console) render(w http.ResponseWriter, r *http.Request, code int, v view) {
	body, err := c.executeTemplate("layout", c.frame(r, v))
	if err != nil {
		c.logger.Error("rendering a page", "page", v.Page, "error", err)
		http.Error(w, "this page cannot be shown: see the node's log", http.StatusInternalServerError)
		return
	}
	c.send(w, code, body)
}

func (c *Console) executeTemplate(name string, f frame) ([]byte, error) {
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

// renderError shows an error page.
func (c *Console) renderError(w http.ResponseWriter, r *http.Request, code int, why string) {
	c.render(w, r, code, view{Page: "error", Title: http.StatusText(code), Data: why})
}

// inputError is an invalid input.
type inputError struct{ field, problem string }

func (e *inputError) Error() string { return e.field + ": " + e.problem }

// fail shows an error.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	if c.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errStopping
	}
	code := http.StatusBadGateway
	switch _, ofInput := errors.AsType[*inputError](err); {
	case ofInput, errors.Is(err, session.ErrInvalid), errors.Is(err, tree.ErrInvalid), errors.Is(err, tree.ErrPath):
		code = http.StatusBadRequest
	case errors.Is(err, session.ErrUnauthenticated):
		code = http.StatusUnauthorized
	case errors.Is(err, session.ErrForbidden), refusedCode(err) == tree.NoPermission:
		code = http.StatusForbidden
	case refusedCode(err) == tree.NoNode, errors.Is(err, session.ErrExpired):
		code = http.StatusNotFound
	case refusedCode(err) != 0, isMemberRefusal(err):
		code = http.StatusConflict
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errStopping),
		errors.Is(err, session.ErrNoLeader), errors.Is(err, client.ErrUnreachable), status.Code(err) == codes.Unavailable:
		code = http.StatusServiceUnavailable
	}
	c.renderError(w, r, code, err.Error())
}

// isMemberRefusal reports whether the cluster refused a membership change.
func isMemberRefusal(err error) bool {
	_, refused := errors.AsType[*session.MemberRefusedError](err)
	return refused
}

// refusedCode returns why the tree refused a request, 0 if it did not.
func refusedCode(err error) tree.Code {
	if e, ok := errors.AsType[*tree.RefusedError](err); ok {
		return e.Code
	}
	return 0
}

// parseTemplates reads the templates. An invalid template is a fault of this package.
func parseTemplates() map[string]*template.Template {
	layout := template.Must(template.New("").Funcs(templateFuncs()).ParseFS(files, "templates/layout.html"))
	pages := make(map[string]*template.Template)
	for _, name := range []string{
		"overview", "sessions", "session", "tree", "locks", "members", "deaths", "settings", "confirm", "done", "error",
	} {
		pages[name] = template.Must(template.Must(layout.Clone()).ParseFS(files, "templates/"+name+".html"))
	}
	return pages
}

func templateFuncs() template.FuncMap {
	return template.FuncMap{
		"clean": clean, "duration": words.Span, "timestamp": words.Moment, "bytes": words.Bytes,
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
		"lockstate": lockState,
		"causes": func() []string {
			return []string{session.CauseExpired.String(), session.CauseClosed.String(), session.CauseKilled.String()}
		},
		"u64": func(n int) uint64 { return uint64(max(0, n)) },
	}
}

// link marks a query that [query] has encoded as safe for a template: html/template would escape its = and & otherwise.
func link(query string) template.URL {
	return template.URL(query) //nolint:gosec // url.Values has escaped it
}

// query encodes names and values as the query of a URL.
func query(pairs []string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v.Encode()
}

// clean escapes the invisible characters of foreign text, because they could make one text look like another. The
// template escapes HTML.
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

// ago formats an elapsed time roughly.
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

// action is a change that a person requests.
type action struct {
	// Title names the action, Question asks for confirmation, and Consequences lists what follows.
	Title, Question string
	Consequences    []string
	// Back is the page that the person came from.
	Back string
	// run carries the action out, and describes the result.
	run func() (string, error)
}

// confirmation is a page that asks for confirmation.
type confirmation struct {
	action
	URL    string
	Fields []field
}

// field is a field of a form, which the confirmation sends again.
type field struct{ Name, Value string }

// confirmed serves an action: it asks for confirmation, then carries the action out.
func (c *Console) confirmed(read func(*request) (action, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			c.fail(w, r, &inputError{"form", fmt.Sprintf("must be valid and have at most %d bytes", maxFormBytes)})
			return
		}
		c.serveWithTimeout(w, r, func(q *request) {
			a, err := read(q)
			if err != nil {
				c.fail(w, r, err)
				return
			}
			if r.PostForm.Get("confirmed") != "yes" {
				asking := confirmation{a, r.URL.Path, fieldsOf(r.PostForm)}
				c.render(w, r, http.StatusOK, view{Page: "confirm", Title: a.Title, Data: asking})
				return
			}
			text, err := a.run()
			if err != nil {
				c.fail(w, r, err)
				return
			}
			c.render(w, r, http.StatusOK, view{Page: "done", Title: a.Title, Data: result{text, a.Back}})
		})
	}
}

// result is the result of an action.
type result struct{ Text, Back string }

func fieldsOf(v url.Values) (fields []field) {
	for name := range maps.Keys(v) {
		if name != "confirmed" {
			fields = append(fields, field{name, v.Get(name)})
		}
	}
	return fields
}
