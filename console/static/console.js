"use strict";
// Pages are whole without this file. It has them follow what happens: the server tells of changes over one stream of
// events, and the page loads its own content anew when a change concerns it. The overview draws the figures of the hour.
(() => {
  const content = document.getElementById("content");
  const live = document.getElementById("live");
  const follows = (content.dataset.follows || "").split(" ").filter(Boolean);
  const shortest = 2000; // ms between two loads of the content
  const silence = 15000; // ms without an event after which the page says that it is stale

  // What the page says of itself.
  let heard = Date.now(), failed = "";
  const tell = () => {
    const quiet = Date.now() - heard;
    const stale = failed || (quiet > silence ? "The node has said nothing for " + Math.round(quiet / 1000) + " s." : "");
    const text = stale ? "Stale. " + stale : follows.length ? "Live" : "This page does not follow.";
    if (live.textContent !== text) live.textContent = text;
    live.classList.toggle("stale", stale !== "");
  };

  // Loading the content anew. What has data-keep stays as it is: a form that somebody fills in, the plots.
  let loaded = 0, waiting = 0, loading = false;
  const isBusy = () => {
    const s = document.getSelection();
    return s && !s.isCollapsed && content.contains(s.anchorNode);
  };
  const exchange = (fresh) => {
    const focused = document.activeElement;
    const key = focused && content.contains(focused) && !focused.closest("[data-keep]") ?
      (focused.id ? "#" + CSS.escape(focused.id) : focused.getAttribute("href") ?
        'a[href="' + CSS.escape(focused.getAttribute("href")) + '"]' : focused.getAttribute("aria-labelledby") ?
        '[aria-labelledby="' + CSS.escape(focused.getAttribute("aria-labelledby")) + '"]' : "") : "";
    const kept = new Map(), scrolled = [];
    for (const one of content.querySelectorAll("[data-keep]")) kept.set(one.dataset.keep, one);
    for (const one of content.querySelectorAll(".wide, pre, .turns")) scrolled.push([one.scrollLeft, one.scrollTop]);
    for (const one of fresh.querySelectorAll("[data-keep]")) {
      const old = kept.get(one.dataset.keep);
      if (old) one.replaceWith(old);
    }
    const edited = content.querySelector('[data-keep="edit"]');
    content.replaceChildren(...fresh.childNodes);
    if (edited && !edited.isConnected) content.append(edited);
    content.querySelectorAll(".wide, pre, .turns").forEach((one, i) => {
      if (scrolled[i]) [one.scrollLeft, one.scrollTop] = scrolled[i];
    });
    if (key) content.querySelector(key)?.focus({preventScroll: true});
  };
  const load = async () => {
    waiting = 0;
    if (loading || document.hidden || isBusy()) return;
    loading = true;
    try {
      const answer = await fetch(location.href, {headers: {"Holdfast-Part": "content"}, redirect: "error"});
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (answer.ok) {
        exchange(page.body);
        failed = "";
      } else {
        failed = page.querySelector("[role=alert]")?.textContent || "The node answers " + answer.status + ".";
      }
    } catch {
      failed = "The node cannot be reached.";
    }
    loaded = Date.now();
    loading = false;
    tell();
  };
  const soon = () => {
    if (follows.length && !waiting) waiting = setTimeout(load, Math.max(0, loaded + shortest - Date.now()));
  };

  // The stream. A hidden page closes it: browsers have few connections for one host.
  let stream = null;
  const open = () => {
    if (stream) return;
    heard = Date.now();
    stream = new EventSource("/ui/events");
    const on = (kind, does) => stream.addEventListener(kind, (e) => {
      heard = Date.now();
      if (failed === lost) failed = "";
      does(e);
      tell();
    });
    on("open", () => {}); // again after a break
    on("begin", soon);
    on("anew", () => { soon(); plots?.begin(); });
    on("quiet", () => {});
    on("status", () => { if (follows.includes("status")) soon(); });
    on("log", () => { if (follows.includes("log")) soon(); });
    on("sample", (e) => {
      if (follows.includes("sample")) soon();
      plots?.add(JSON.parse(e.data));
    });
    stream.addEventListener("error", () => {
      failed = lost; // said with the next second, if the stream does not come back before
      if (stream && stream.readyState === EventSource.CLOSED) { // the browser does not try again by itself
        stream = null;
        setTimeout(() => { if (!document.hidden) open(); }, 3000);
      }
    });
  };
  const lost = "The stream of events is broken.";
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      stream?.close();
      stream = null;
    } else {
      open();
      plots?.begin();
      soon();
    }
  });

  // The plots.
  const groups = [
    ["Sessions", "", [["sessions", "replicated"], ["attached", "of this node"], ["local", "local"]]],
    ["Opens and moves", "a second", [["opens", "opens"], ["moves", "moves"]]],
    ["Ends", "a second", [["closes", "closed"], ["expiries", "expired"], ["kills", "killed"]]],
    ["Commit and disk", "ms", [["commit_ms", "commit"], ["sync_ms", "disk"], ["apply_ms", "apply"]]],
    ["Round trips to members", "ms", [["round_trip_ms", "slowest"]]],
    ["Promise left at a touch", "ms", [["promise_ms", "least"]]],
    ["Lateness of expiries, delay of watches", "ms", [["lateness_ms", "expiry"], ["watch_ms", "watch"]]],
    ["Tree", "a second", [["reads", "reads"], ["writes", "writes"], ["events", "events"]]],
  ];
  const kept = 720;
  const short = (v) => v == null ? "–" : Math.abs(v) >= 1e6 ? (v / 1e6).toPrecision(3) + " M" :
    Math.abs(v) >= 1e4 ? (v / 1e3).toPrecision(3) + " k" : String(+v.toPrecision(3));
  const makePlots = (into) => {
    const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    let data = {t: [], values: {}};
    let drawn = [];
    const draw = () => {
      for (const one of drawn) one.plot.destroy();
      into.replaceChildren();
      drawn = groups.map(([title, unit, lines]) => {
        const figure = document.createElement("figure"), caption = document.createElement("figcaption");
        const head = document.createElement("b");
        head.textContent = title + (unit ? ", " + unit : "");
        caption.append(head);
        const now = lines.map(([, name], i) => {
          const span = document.createElement("span");
          span.className = "now c" + (i + 1);
          caption.append(span);
          return [span, name];
        });
        figure.append(caption);
        figure.setAttribute("role", "group");
        into.append(figure);
        const axis = {stroke: ink("--quiet"), grid: {stroke: ink("--line"), width: 1}, ticks: {stroke: ink("--line")},
          font: "12px system-ui, sans-serif"};
        const plot = new uPlot({
          width: Math.max(200, figure.clientWidth - 14), height: 150, legend: {show: false}, cursor: {drag: {x: false, y: false}},
          scales: {y: {range: (_, lo, hi) => [0, hi > 0 ? hi * 1.1 : 1]}},
          axes: [axis, {...axis, size: 52, values: (_, v) => v.map(short)}],
          series: [{}, ...lines.map(([, name], i) => ({label: name, stroke: ink("--plot-" + (i + 1)), width: 1.5, spanGaps: false}))],
        }, [[], ...lines.map(() => [])], figure);
        return {plot, lines, now};
      });
      show();
    };
    const show = () => {
      for (const {plot, lines, now} of drawn) {
        plot.setData([data.t, ...lines.map(([name]) => data.values[name] || [])]);
        now.forEach(([span, name], i) => {
          span.textContent = name + " " + short((data.values[lines[i][0]] || []).at(-1));
        });
      }
    };
    const add = (more) => {
      if (data.t.length && more.t[0] <= data.t.at(-1)) return;
      data.t = data.t.concat(more.t).slice(-kept);
      for (const name of Object.keys(more.values)) {
        data.values[name] = (data.values[name] || []).concat(more.values[name]).slice(-kept);
      }
      show();
    };
    const begin = async () => {
      try {
        const answer = await fetch("/ui/samples");
        if (answer.ok) {
          data = await answer.json();
          show();
        }
      } catch { /* the stream says so */ }
    };
    let width = 0;
    new ResizeObserver(() => {
      if (into.clientWidth !== width) {
        width = into.clientWidth;
        draw();
      }
    }).observe(into);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    return {begin, add};
  };
  const place = document.getElementById("plots");
  const plots = place && makePlots(place);
  plots?.begin();
  open();
  setInterval(tell, 1000);
  tell();
})();
