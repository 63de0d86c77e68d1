// Package fair shares resources among clients: a [Queue] shares the time of a server, a [Budget] a number of bytes. In
// both, a source with a large demand delays only itself.
package fair
