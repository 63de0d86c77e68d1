// Package ui tests the console with a real browser, headless Chromium, from Debian's chromium-headless-shell or chromium,
// and holdfast top in a terminal of tmux. It is a module of its own, so that the main one needs nothing of what drives
// the browser.
package ui
