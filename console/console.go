// Package console serves people with a browser: it shows the cluster, explains sessions and their ends, and lets
// operators act. Pages are made on the server, and work without JavaScript; with it they follow what happens.
//
// Whatever a page shows, the console asks the client ports of nodes for on behalf of the person at the browser, with
// that person's token, certificate and address: nobody sees or does more here than with the command line. What it knows
// by itself are the figures of its own node, in a ring of an hour.
package console

import (
	"context"
	"crypto/rand"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"holdfast/node"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/clientport"
)

//go:embed static templates
var files embed.FS

// Console serves the pages of one node. It implements [node.Console].
type Console struct {
	logger        hclog.Logger
	node          session.Node
	cluster       string
	version       string
	authenticated bool
	glance        func() clientport.NodeStatus
	removed       func() bool
	settings      []config.Shown
	metrics       prometheus.Gatherer

	pages   map[string]*template.Template
	routes  http.Handler
	callers *callers
	news    *news
	record  *record
	// life ends when requests under way must.
	life context.Context //nolint:containedctx // it is the console's life
	end  context.CancelFunc
}

var _ node.Console = (*Console)(nil)

// New returns the console of a node. It starts nothing.
func New(h node.ConsoleHost) *Console {
	c := &Console{
		logger: h.Logger, node: h.Node, cluster: h.ClusterID, version: h.Version,
		authenticated: h.Authenticated, glance: h.Glance, removed: h.Removed, settings: h.Settings, metrics: h.Metrics,
		pages: parse(), callers: newCallers(h), news: newNews(rand.Text()), record: newRecord(),
	}
	c.life, c.end = context.WithCancel(context.Background()) //nolint:forbidigo // Stop ends it
	c.routes = c.routing()
	return c
}

// ForNode is [New] for the options of a node.
func ForNode(h node.ConsoleHost) node.Console { return New(h) }

// policy lets a page load nothing but what this console serves, and run no script that is written into a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP serves /ui/.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	c.routes.ServeHTTP(w, r)
}

// maxFormBytes bounds what a form sends: the largest data of an entry, as hexadecimal digits in a form.
const maxFormBytes = 8 << 20

func (c *Console) routing() http.Handler {
	mux := http.NewServeMux()
	static, err := fs.Sub(files, "static")
	if err != nil {
		panic("console: " + err.Error()) // the name is that of the embedded directory
	}
	mux.Handle("GET /ui/static/", http.StripPrefix("/ui/static/", lasting(http.FileServerFS(static))))
	for path, page := range map[string]func(*request) (view, error){
		"GET /ui/{$}":           c.overview,
		"GET /ui/sessions":      c.sessions,
		"GET /ui/sessions/{id}": c.session,
		"GET /ui/tree":          c.tree,
		"GET /ui/locks":         c.locks,
		"GET /ui/members":       c.members,
		"GET /ui/deaths":        c.deaths,
		"GET /ui/settings":      c.settingsPage,
	} {
		mux.HandleFunc(path, c.page(page))
	}
	members := memberActs{c}
	for path, act := range map[string]func(*request) (act, error){
		"POST /ui/sessions/{id}/kill":     c.killSession,
		"POST /ui/sessions/{id}/extend":   c.extendSession,
		"POST /ui/tree/set":               c.setEntry,
		"POST /ui/tree/create":            c.createEntry,
		"POST /ui/tree/delete":            c.deleteEntry,
		"POST /ui/members/{node}/drain":   members.drainMember,
		"POST /ui/members/{node}/undrain": members.undrainMember,
		"POST /ui/members":                members.addMember,
		"POST /ui/freeze":                 c.freeze,
		"POST /ui/thaw":                   c.thaw,
	} {
		mux.HandleFunc(path, c.acting(act))
	}
	for name, of := range changes() {
		mux.HandleFunc("POST /ui/members/{node}/"+name, c.acting(members.changing(of)))
	}
	mux.HandleFunc("GET /ui/deaths.csv", c.exportDeaths)
	mux.HandleFunc("GET /ui/samples", c.samples)
	mux.HandleFunc("GET /ui/events", c.events)
	mux.HandleFunc("/ui/", func(w http.ResponseWriter, r *http.Request) {
		c.refuse(w, r, http.StatusNotFound, "There is no such page.")
	})
	return http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(mux, maxFormBytes))
}

// lasting lets a browser keep a file for a while: a new release has others.
func lasting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=300")
		next.ServeHTTP(w, r)
	})
}

// Run takes samples and tells pages what changes, until ctx ends.
func (c *Console) Run(ctx context.Context) error {
	defer c.callers.close()
	defer c.news.end()
	look, take := time.NewTicker(time.Second), time.NewTicker(sampleInterval)
	defer look.Stop()
	defer take.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-look.C:
			c.look(now)
			c.callers.dismiss(now)
		case now := <-take.C:
			c.take(now)
		}
	}
}

// Stop ends the streams of events, which would not end by themselves, and a second later the requests under way.
func (c *Console) Stop() {
	c.news.end()
	time.AfterFunc(stopGrace, c.end)
}
