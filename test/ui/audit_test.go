package ui

// audit is a function of JavaScript that returns what is wrong with a page for people who see little, use a keyboard or
// have a screen reader: WCAG 2.2, level AA, as far as a program can tell. It also looks for text that runs out of a
// narrow window.
const audit = `(() => {
	const wrong = [];
	const shown = (e) => e.checkVisibility({visibilityProperty: true}) && e.getClientRects().length > 0;
	const name = (e) => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + (e.className ? "." + e.className : "") +
		" " + JSON.stringify((e.textContent || "").trim().slice(0, 40));
	if (!document.documentElement.lang) wrong.push("no language");
	if (!document.title) wrong.push("no title");
	if (document.querySelectorAll("main").length !== 1) wrong.push("not one main");
	if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");
	let level = 0;
	for (const h of document.querySelectorAll("h1,h2,h3,h4")) {
		if (+h.tagName[1] > level + 1) wrong.push("heading skips a level: " + name(h));
		level = +h.tagName[1];
	}
	const ids = new Set();
	for (const e of document.querySelectorAll("[id]")) {
		if (ids.has(e.id)) wrong.push("id twice: " + e.id);
		ids.add(e.id);
	}
	for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea, progress")) {
		if (!e.labels?.length && !e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby"))
			wrong.push("no label: " + name(e));
	}
	for (const e of document.querySelectorAll("button, a[href]")) {
		if (!e.textContent.trim() && !e.getAttribute("aria-label")) wrong.push("no name: " + e.outerHTML.slice(0, 80));
	}
	for (const e of document.querySelectorAll("[aria-labelledby]")) {
		if (!document.getElementById(e.getAttribute("aria-labelledby"))) wrong.push("labelled by nothing: " + name(e));
	}
	for (const e of document.querySelectorAll("th")) if (!e.scope) wrong.push("no scope: " + name(e));
	for (const e of document.querySelectorAll("img")) if (!e.hasAttribute("alt")) wrong.push("no alt: " + e.src);
	for (const e of document.querySelectorAll("[style], script:not([src])")) {
		if (!e.closest(".uplot")) wrong.push("written into the page: " + e.outerHTML.slice(0, 80));
	}
	// Contrast of text, 4.5 to 1, or 3 to 1 if it is large.
	const parse = (c) => { const n = c.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
	const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
		.reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
	const ground = (e) => {
		for (; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c[3] > 0) return c;
		}
		return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
	};
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	const seen = new Set();
	while (walk.nextNode()) {
		const e = walk.currentNode.parentElement;
		if (!walk.currentNode.data.trim() || seen.has(e) || !shown(e)) continue;
		seen.add(e);
		const style = getComputedStyle(e);
		const [a, b] = [light(parse(style.color)), light(ground(e))].sort((x, y) => y - x);
		const least = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
		if ((a + .05) / (b + .05) < least) wrong.push("contrast " + ((a + .05) / (b + .05)).toFixed(2) + ": " + name(e));
	}
	if (document.documentElement.scrollWidth > innerWidth + 1)
		wrong.push("wider than the window: " + document.documentElement.scrollWidth + " of " + innerWidth);
	// Whatever can be scrolled can be reached with the keyboard.
	for (const e of document.querySelectorAll("main *")) {
		const style = getComputedStyle(e);
		if (e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(style.overflowX) && e.tabIndex < 0 && e.tagName !== "TEXTAREA")
			wrong.push("scrolls, and the keyboard does not reach it: " + name(e));
	}
	return wrong;
})()`
