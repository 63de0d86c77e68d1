"use strict";
// Pages are whole without this file. It has them follow what happens: the server tells of changes over one stream of
// events, and the page loads its own content anew when a change concerns it. The overview draws the figures of the hour.
(() => {
  const content = document.getElementById("content");
  const live = document.getElementById("live");
  const follows = (content.dataset.follows || "").split(" ").filter(Boolean);
  const shortest = 2000; // ms between two loads of the content
  const pause = 5000; // ms before the content is asked for again after a failure
  const silence = 15000; // ms without an event, or with a change that is not shown, after which the page says so

  // What the page says of itself. It has the content that it should have only when nothing is missed.
  let heard = Date.now(); // when the node said something last
  let broken = ""; // what is wrong with the stream, until it says something
  let failed = ""; // what was wrong with the newest load of the content, until one succeeds
  let missed = 0; // when the first change came that the content does not show, 0 if it shows all
  // atLeast says how long something lasts in steps of which there are few: a screen reader reads out each change.
  const atLeast = (ms) => {
    const [, text] = [[3600e3, "an hour"], [600e3, "10 minutes"], [60e3, "a minute"]].find(([from]) => ms >= from) ||
      [0, silence / 1000 + " s"];
    return "more than " + text;
  };
  const staleness = () => {
    const quiet = Date.now() - heard;
    if (failed || broken) return failed || broken;
    if (quiet > silence) return "The node has said nothing for " + atLeast(quiet) + ".";
    if (missed && Date.now() - missed > silence) {
      return "A change is not shown" + (isBusy() ? " while text is selected." : " yet.");
    }
    return "";
  };
  const tell = () => {
    const stale = staleness();
    const text = stale ? "Stale. " + stale : follows.length ? "Live" : "This page does not follow.";
    if (live.textContent !== text) live.textContent = text;
    live.classList.toggle("stale", stale !== "");
  };

  // Loading the content anew. What has data-keep stays as it is: a form that somebody fills in, the plots.
  let next = 0, waiting = 0, loading = false; // next is the earliest time of the next load
  const isBusy = () => {
    const s = document.getSelection();
    return s && !s.isCollapsed && content.contains(s.anchorNode);
  };
  // nameOf is what tells an element that can have the focus apart from others, in this content and in the next: what
  // follows a link, what a form's control does, what a region is called.
  const nameOf = (one) => {
    const form = one.closest("form");
    const names = ["id", "href", "aria-labelledby", "aria-label"].map((name) => one.getAttribute(name));
    if (one.id || !form) return names.join("\n");
    const hidden = [...form.querySelectorAll("input[type=hidden]")].map((input) => input.name + "=" + input.value);
    const place = [...form.querySelectorAll("input, select, textarea, button")].indexOf(one);
    return [form.getAttribute("action"), ...hidden, place].join("\n");
  };
  // hold notes what has the focus, and returns what gives it back in new content: to the same element, to the one that
  // has its name, or to the content if there is none. The Tab key would begin at the page's top otherwise.
  const hold = () => {
    const focused = document.activeElement;
    if (!focused || !content.contains(focused) || focused === content) return () => {};
    const all = "a[href], button, input, select, textarea, [tabindex], .turns";
    const named = (name) => [...content.querySelectorAll(all)].filter((one) => nameOf(one) === name);
    const name = nameOf(focused), nth = named(name).indexOf(focused);
    const {selectionStart: from = null, selectionEnd: to, selectionDirection: way} = focused;
    return () => {
      const same = named(name);
      const one = focused.isConnected ? focused : nth >= 0 && (same[nth] || same[0]) || content;
      one.focus({preventScroll: true});
      if (one === focused && from !== null) one.setSelectionRange(from, to, way);
    };
  };
  const exchange = (fresh) => {
    const giveBack = hold();
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
    giveBack();
  };
  // fetched returns what is wrong with the content that it loads, or shows it.
  const fetched = async () => {
    try {
      const answer = await fetch(location.href, {
        headers: {"Holdfast-Part": "content"}, redirect: "error", signal: AbortSignal.timeout(silence),
      });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!answer.ok) {
        return page.querySelector("[role=alert]")?.textContent || "The node answers " + answer.status + ".";
      }
      if (isBusy()) missed ||= Date.now(); // since a moment
      else exchange(page.body);
      return "";
    } catch {
      return "The node cannot be reached.";
    }
  };
  // A change that comes while a load runs may not be in what the load brings. It stays missed, as one does whose load
  // fails or finds text selected, until a load succeeds that began after it: no other event may ever come.
  const load = async () => {
    waiting = 0;
    if (document.hidden) return; // the page loads when it is seen again
    if (isBusy()) {
      next = Date.now() + shortest;
    } else {
      const before = missed;
      loading = true;
      missed = 0;
      failed = await fetched();
      if (failed) missed = before;
      next = Date.now() + (failed ? pause : shortest);
      loading = false;
    }
    tell();
    wait();
  };
  const wait = () => {
    if (missed && !waiting && !loading) waiting = setTimeout(load, Math.max(0, next - Date.now()));
  };
  const soon = () => {
    if (!follows.length) return;
    missed ||= Date.now();
    wait();
  };

  // The stream. A hidden page closes it: browsers have few connections for one host.
  let stream = null;
  const open = () => {
    if (stream) return;
    heard = Date.now();
    stream = new EventSource("/ui/events");
    const on = (kind, does) => stream.addEventListener(kind, (e) => {
      heard = Date.now();
      broken = "";
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
      broken = "The stream of events is broken."; // said with the next second, if the stream does not come back before
      if (stream && stream.readyState === EventSource.CLOSED) { // the browser does not try again by itself
        stream = null;
        setTimeout(() => { if (!document.hidden) open(); }, 3000);
      }
    });
  };
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
  // alone returns where values are that have none beside them: a line has no length there, so they are drawn as points.
  const alone = (values) => {
    const found = values.flatMap((v, i) => v != null && values[i - 1] == null && values[i + 1] == null ? [i] : []);
    return found.length ? found : null;
  };
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
          tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"), // as all times of the pages
          width: Math.max(200, figure.clientWidth - 14), height: 150, legend: {show: false}, cursor: {drag: {x: false, y: false}},
          scales: {y: {range: (_, lo, hi) => [0, hi > 0 ? hi * 1.1 : 1]}},
          axes: [axis, {...axis, size: 52, values: (_, v) => v.map(short)}],
          series: [{}, ...lines.map(([, name], i) => ({label: name, stroke: ink("--plot-" + (i + 1)), width: 1.5,
            spanGaps: false, points: {size: 5, fill: ink("--plot-" + (i + 1)), filter: (u, at, all) => all ? null : alone(u.data[at])}}))],
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
