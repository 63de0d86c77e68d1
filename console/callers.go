package console

import (
	"context"
	"crypto/sha256"
	"net"
	"net/http"
	"sync"
	"time"

	"holdfast/auth"
	"holdfast/client"
	"holdfast/node"
	"holdfast/transport/secure"
)

const (
	// maxCallers bounds the callers whose connections a console keeps, callerIdle how long it keeps those of one. It is
	// above the 200 people who may watch at once, each with a token or an address of their own: when there are more
	// callers than places, each takes the place of one who comes back in a moment, and all of them dial for each page.
	maxCallers = 256
	callerIdle = 2 * time.Minute
	// maxParts bounds the contents of pages that are kept for one caller, partLasts how long one is good for pages that
	// follow by themselves. A person has few pages open, and 256 callers with 16 contents of 50 KB keep 200 MB at most.
	maxParts  = 16
	partLasts = 2 * time.Second
)

// identity is who a caller is, as far as nodes can tell callers apart.
type identity struct {
	host        string
	credential  [sha256.Size]byte
	certificate [sha256.Size]byte
}

// caller is the client by which the console acts for one identity. Safe for concurrent use.
type caller struct {
	*client.Client
	// used and busy are the callers'.
	used time.Time
	busy int

	mu    sync.Mutex
	parts map[string]*part
}

// part is a part of a page that was made a moment ago, for all who follow the page.
type part struct {
	mu   sync.Mutex
	made time.Time
	body []byte
	// knows is the number of an event: what happened until then is in the body.
	knows uint64
}

// callers keeps a client for each identity. Safe for concurrent use.
type callers struct {
	host node.ConsoleHost
	mu   sync.Mutex
	all  map[identity]*caller
}

func newCallers(h node.ConsoleHost) *callers {
	return &callers{host: h, all: make(map[identity]*caller)}
}

// of returns the caller that makes a request, until done is called.
func (c *callers) of(r *http.Request) (one *caller, done func(), err error) {
	id := identity{host: hostOf(r.RemoteAddr), credential: sha256.Sum256([]byte(r.Header.Get("Authorization")))}
	if who, ok := secure.IdentityOf(r.Context()); ok {
		id.certificate = sha256.Sum256(who.Certificate.Raw)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	one = c.all[id]
	if one == nil {
		if one, err = c.admit(r); err != nil {
			return nil, nil, err
		}
		c.makeRoom()
		c.all[id] = one
	}
	one.busy++
	one.used = time.Now()
	return one, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		one.busy--
	}, nil
}

// admit makes the client of a caller.
func (c *callers) admit(r *http.Request) (*caller, error) {
	cfg := client.Config{
		Endpoints: []string{c.host.Address}, OnlyEndpoints: true, Dial: c.host.Dialer(r), Principal: "console",
		PlainToken: true, Logger: c.host.Logger,
	}
	if token := bearer(r); token != "" {
		cfg.Token = client.StaticToken(token)
	}
	cl, err := client.New(cfg)
	if err != nil {
		return nil, err
	}
	return &caller{Client: cl, parts: make(map[string]*part)}, nil
}

// makeRoom gives up the caller that was idle longest, if there are too many.
func (c *callers) makeRoom() {
	if len(c.all) < maxCallers {
		return
	}
	var oldest identity
	var found *caller
	for id, one := range c.all {
		if one.busy == 0 && (found == nil || one.used.Before(found.used)) {
			oldest, found = id, one
		}
	}
	if found != nil {
		c.drop(oldest)
	}
}

// dismiss gives up callers that have asked nothing for a while.
func (c *callers) dismiss(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, one := range c.all {
		if one.busy == 0 && now.Sub(one.used) > callerIdle {
			c.drop(id)
		}
	}
}

func (c *callers) drop(id identity) {
	if err := c.all[id].Close(); err != nil {
		c.host.Logger.Debug("closing the client of a caller", "error", err)
	}
	delete(c.all, id)
}

func (c *callers) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.all {
		c.drop(id)
	}
}

// part returns what produce makes, or what it made less than [partLasts] ago under the same name. newest is the number
// of the newest event: a page that asks because of it gets no body that was made before. Such a body would stay on the
// page until the next event, which a quiet cluster does not have.
func (c *caller) part(name string, newest uint64, produce func() ([]byte, error)) ([]byte, error) {
	c.mu.Lock()
	p := c.parts[name]
	if p == nil {
		if len(c.parts) >= maxParts { // pages have few names; searches have many
			clear(c.parts)
		}
		p = &part{}
		c.parts[name] = p
	}
	c.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.made) < partLasts && p.knows >= newest {
		return p.body, nil
	}
	body, err := produce()
	if err == nil {
		p.made, p.body, p.knows = time.Now(), body, newest
	}
	return body, err
}

// bearer returns the token of a request, which the node's guard has let through.
func bearer(r *http.Request) string {
	const scheme = "Bearer "
	if h := r.Header.Get("Authorization"); len(h) > len(scheme) {
		return h[len(scheme):]
	}
	return ""
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// may says what a caller may do, as far as pages show it. The nodes decide.
type may struct {
	// Name is the verified name, empty where nobody has one.
	Name                       string
	Operate, Write, Administer bool
}

func mayOf(ctx context.Context, authenticated bool) may { //nolint:revive // flag-parameter: it is a setting
	if !authenticated {
		return may{Operate: true, Write: true, Administer: true}
	}
	id := auth.From(ctx)
	return may{
		Name: id.Name, Operate: id.Roles.Allow(auth.Operator), Write: id.Roles.Allow(auth.Client),
		Administer: id.Roles.Allow(auth.Admin),
	}
}
