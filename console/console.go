// Package console is the web console: it shows the cluster, explains sessions and their ends, and lets operators act.
// The server renders the pages, which work without JavaScript; with JavaScript they update themselves.
//
// The console asks the client ports of nodes on behalf of the person at the browser, with that person's token,
// certificate and address: they see and do no more here than with the command line. Only the samples
// and events of its own node are the console's own data: samples of the last hour, and the newest events.
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

	"holdfast/node/config"
	"holdfast/node/ports"
	"holdfast/session"
	"holdfast/transport/clientport"
)

//go:embed static templates
var files embed.FS

// Console serves the pages of one node. It implements [ports.Console].
type Console struct {
	logger        hclog.Logger
	node          session.Node
	cluster       string
	version       string
	authenticated bool
	nodeStatus    func() clientport.NodeStatus
	removed       func() bool
	settings      []config.Shown
	metrics       prometheus.Gatherer

	pages   map[string]*template.Template
	routes  http.Handler
	callers *callers
	events  *eventLog
	history *history
	// ctx ends when pending requests must end.
	ctx    context.Context //nolint:containedctx // the console's life
	cancel context.CancelFunc
}

var _ ports.Console = (*Console)(nil)

// New returns the console of a node. It starts nothing.
func New(h ports.ConsoleHost) *Console {
	c := &Console{
		logger: h.Logger, node: h.Node, cluster: h.ClusterID, version: h.Version,
		authenticated: h.Authenticated, nodeStatus: h.Glance, removed: h.Removed, settings: h.Settings, metrics: h.Metrics,
		pages: parseTemplates(), callers: newCallers(h), events: newEventLog(rand.Text()), history: newHistory(),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // Stop ends it
	c.routes = c.newRoutes()
	return c
}

// ForNode is [New] for the options of a node.
func ForNode(h ports.ConsoleHost) ports.Console { return New(h) }

// contentSecurityPolicy lets a page load only files of this console, and run no inline script.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP serves /ui/.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentSecurityPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	c.routes.ServeHTTP(w, r)
}

// maxFormBytes bounds the size of a form, which has at most the largest data of an entry in hexadecimal digits.
const maxFormBytes = 8 << 20

func (c *Console) newRoutes() http.Handler {
	mux := http.NewServeMux()
	static, err := fs.Sub(files, "static")
	if err != nil {
		panic("console: " + err.Error()) // the name is that of the embedded directory
	}
	mux.Handle("GET /ui/static/", http.StripPrefix("/ui/static/", cacheable(http.FileServerFS(static))))
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
	members := memberActions{c}
	for path, action := range map[string]func(*request) (action, error){
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
		mux.HandleFunc(path, c.confirmed(action))
	}
	for name, of := range memberActionsByName() {
		mux.HandleFunc("POST /ui/members/{node}/"+name, c.confirmed(members.action(of)))
	}
	mux.HandleFunc("GET /ui/deaths.csv", c.exportDeaths)
	mux.HandleFunc("GET /ui/samples", c.serveSamples)
	mux.HandleFunc("GET /ui/events", c.serveEvents)
	mux.HandleFunc("/ui/", func(w http.ResponseWriter, r *http.Request) {
		c.renderError(w, r, http.StatusNotFound, "Page not found.")
	})
	return http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(mux, maxFormBytes))
}

// cacheable lets a browser cache a file for five minutes: a new release has other files.
func cacheable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=300")
		next.ServeHTTP(w, r)
	})
}

// Run takes samples and reports changes to pages, until ctx ends.
func (c *Console) Run(ctx context.Context) error {
	defer c.callers.close()
	defer c.events.close()
	check, take := time.NewTicker(time.Second), time.NewTicker(sampleInterval)
	defer check.Stop()
	defer take.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-check.C:
			c.checkStatus(now)
			c.callers.evictIdle(now)
		case now := <-take.C:
			c.takeSample(now)
		}
	}
}

// Stop closes the event streams, which would not end by themselves, and a second later cancels pending requests.
func (c *Console) Stop() {
	c.events.close()
	time.AfterFunc(stopGrace, c.cancel)
}
