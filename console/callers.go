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
	"holdfast/node/ports"
	"holdfast/transport/secure"
)

const (
	// maxCallers bounds the number of cached clients, and callerIdle the time that an idle client stays. maxCallers
	// exceeds the 200 people who may watch at once, each with a different token or address: with more callers than
	// places, callers would evict each other all the time, and each page would dial again.
	maxCallers = 256
	callerIdle = 2 * time.Minute
	// maxContents bounds the cached contents of one caller, contentLifetime their age. A person has few pages open, and
	// 256 callers with 16 contents of 50 KB use 200 MB at most.
	maxContents     = 16
	contentLifetime = 2 * time.Second
)

// identity is what nodes distinguish callers by.
type identity struct {
	host        string
	credential  [sha256.Size]byte
	certificate [sha256.Size]byte
}

// caller is the client with which the console acts for one identity. Safe for concurrent use.
type caller struct {
	*client.Client
	// lastUsed and requests, the number of pending requests, belong to callers.
	lastUsed time.Time
	requests int

	mu       sync.Mutex
	contents map[string]*cachedContent
}

// cachedContent is the content of a page, for all pages that update themselves.
type cachedContent struct {
	mu     sync.Mutex
	madeAt time.Time
	body   []byte
	// newestEvent is the number of the newest event that the body includes.
	newestEvent uint64
}

// callers caches a client for each identity. Safe for concurrent use.
type callers struct {
	host       ports.ConsoleHost
	mu         sync.Mutex
	byIdentity map[identity]*caller
}

func newCallers(h ports.ConsoleHost) *callers {
	return &callers{host: h, byIdentity: make(map[identity]*caller)}
}

// acquire returns the caller of a request, which stays cached until done is called.
func (c *callers) acquire(r *http.Request) (one *caller, done func(), err error) {
	id := identity{host: hostOf(r.RemoteAddr), credential: sha256.Sum256([]byte(r.Header.Get("Authorization")))}
	if who, ok := secure.IdentityOf(r.Context()); ok {
		id.certificate = sha256.Sum256(who.Certificate.Raw)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	one = c.byIdentity[id]
	if one == nil {
		if one, err = c.newCaller(r); err != nil {
			return nil, nil, err
		}
		c.evictOldest()
		c.byIdentity[id] = one
	}
	one.requests++
	one.lastUsed = time.Now()
	return one, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		one.requests--
	}, nil
}

// newCaller returns a client that acts for the caller of a request.
func (c *callers) newCaller(r *http.Request) (*caller, error) {
	cfg := client.Config{
		Endpoints: []string{c.host.Address}, OnlyEndpoints: true, Dial: c.host.Dialer(r), ClientName: "console",
		TokenWithoutTLS: true, Logger: c.host.Logger,
	}
	if token := bearer(r); token != "" {
		cfg.Token = client.StaticToken(token)
	}
	cl, err := client.New(cfg)
	if err != nil {
		return nil, err
	}
	return &caller{Client: cl, contents: make(map[string]*cachedContent)}, nil
}

// evictOldest evicts the least recently used idle caller of a full cache.
func (c *callers) evictOldest() {
	if len(c.byIdentity) < maxCallers {
		return
	}
	var oldest identity
	var found *caller
	for id, one := range c.byIdentity {
		if one.requests == 0 && (found == nil || one.lastUsed.Before(found.lastUsed)) {
			oldest, found = id, one
		}
	}
	if found != nil {
		c.evict(oldest)
	}
}

// evictIdle evicts callers without a request for callerIdle.
func (c *callers) evictIdle(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, one := range c.byIdentity {
		if one.requests == 0 && now.Sub(one.lastUsed) > callerIdle {
			c.evict(id)
		}
	}
}

func (c *callers) evict(id identity) {
	if err := c.byIdentity[id].Close(); err != nil {
		c.host.Logger.Debug("closing the client of a caller", "error", err)
	}
	delete(c.byIdentity, id)
}

func (c *callers) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.byIdentity {
		c.evict(id)
	}
}

// content returns the result of produce, or a cached result of the same name, at most contentLifetime old. newest is
// the number of the newest event: a page that reloads because of this event gets no older content. Such content would
// stay on the page until the next event, which may be long in a quiet cluster.
func (c *caller) content(name string, newest uint64, produce func() ([]byte, error)) ([]byte, error) {
	c.mu.Lock()
	p := c.contents[name]
	if p == nil {
		if len(c.contents) >= maxContents { // pages have few names; searches have many
			clear(c.contents)
		}
		p = &cachedContent{}
		c.contents[name] = p
	}
	c.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.madeAt) < contentLifetime && p.newestEvent >= newest {
		return p.body, nil
	}
	body, err := produce()
	if err == nil {
		p.madeAt, p.body, p.newestEvent = time.Now(), body, newest
	}
	return body, err
}

// bearer returns the token of a request that authz has accepted.
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

// permissions lists what a caller may do, so that pages offer it. The nodes decide.
type permissions struct {
	// Name is the verified name, empty for an unverified caller.
	Name                       string
	Operate, Write, Administer bool
}

func permissionsOf(ctx context.Context, authenticated bool) permissions { //nolint:revive // flag-parameter: a setting
	if !authenticated {
		return permissions{Operate: true, Write: true, Administer: true}
	}
	id := auth.From(ctx)
	return permissions{
		Name: id.Name, Operate: id.Roles.Allow(auth.Operator), Write: id.Roles.Allow(auth.Client),
		Administer: id.Roles.Allow(auth.Admin),
	}
}
