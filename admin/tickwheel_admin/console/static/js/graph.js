// Graphs: zoom, dragging, arrow keys from node to node, and staying at what runs. Without this a graph is a picture of
// links that scrolls.
const STEP = 1.25; // of one zoom
const LEAST = 0.1;
const MOST = 2.5;
const READABLE = 0.6; // smaller is only shown to whoever asks for it
const DRAGGED = 4; // pixels that are no click any more

const calm = matchMedia('(prefers-reduced-motion: reduce)');
const known = new WeakMap(); // by graph

const viewOf = (graph) => graph.querySelector('.graph-view');
const pictureOf = (graph) => graph.querySelector('.graph-view > svg');
const nodesOf = (graph) => [...graph.querySelectorAll('.g-node')];
const placeOf = (node) => /translate\((\S+) (\S+)\)/.exec(node.getAttribute('transform')).slice(1).map(Number);

function zoomTo(graph, scale, at) {
  const state = known.get(graph);
  const view = viewOf(graph);
  const picture = pictureOf(graph);
  const to = Math.min(Math.max(scale, LEAST), MOST);
  const {x, y} = at ?? {x: view.clientWidth / 2, y: view.clientHeight / 2};
  const left = (view.scrollLeft + x) * (to / state.scale) - x;
  const top = (view.scrollTop + y) * (to / state.scale) - y;
  const {width, height} = picture.viewBox.baseVal;
  picture.setAttribute('width', width * to);
  picture.setAttribute('height', height * to);
  state.scale = to;
  view.scrollTo(left, top);
  markMovable(graph);
}

function markMovable(graph) {
  const view = viewOf(graph);
  graph.classList.toggle('moves', view.scrollWidth > view.clientWidth || view.scrollHeight > view.clientHeight);
}

function scaleThatFits(graph) {
  const view = viewOf(graph);
  const {width, height} = pictureOf(graph).viewBox.baseVal;
  const room = parseFloat(getComputedStyle(view).maxHeight) || view.clientHeight;
  return Math.min(1, (view.clientWidth - 18) / width, (room - 10) / height);
}

const zooms = {
  in: (graph) => zoomTo(graph, known.get(graph).scale * STEP),
  out: (graph) => zoomTo(graph, known.get(graph).scale / STEP),
  fit: (graph) => zoomTo(graph, scaleThatFits(graph)),
};

// A node is brought into the middle of what is seen, but not when it is seen anyway.
export function show(graph, node, {always = false} = {}) {
  const view = viewOf(graph);
  const box = node.getBoundingClientRect();
  const around = view.getBoundingClientRect();
  const isSeen = box.left >= around.left && box.right <= around.right
    && box.top >= around.top && box.bottom <= around.bottom;
  if (isSeen && !always) return;
  view.scrollTo({
    left: view.scrollLeft + box.left + box.width / 2 - around.left - around.width / 2,
    top: view.scrollTop + box.top + box.height / 2 - around.top - around.height / 2,
    behavior: calm.matches ? 'instant' : 'smooth',
  });
}

function follow(graph) {
  const button = graph.querySelector('[data-graph-follow]');
  if (button?.getAttribute('aria-pressed') !== 'true') return;
  const active = graph.querySelector('.g-node[data-active]');
  if (active) show(graph, active);
}

function stopFollowing(graph) {
  graph.querySelector('[data-graph-follow]')?.setAttribute('aria-pressed', 'false');
}

// One node is reached by Tab, the others from there by arrow keys: hundreds of Tabs help nobody.
function choose(graph, node, {focus = true} = {}) {
  const state = known.get(graph);
  state.key = node.id;
  for (const other of graph.querySelectorAll('.g-node[tabindex="0"]')) other.setAttribute('tabindex', '-1');
  node.setAttribute('tabindex', '0');
  if (focus) {
    node.focus({preventScroll: true});
    show(graph, node);
  }
}

// The nodes that a node leads to, or that lead to it, the nearest one first.
function linked(graph, node, forward) {
  const nodes = nodesOf(graph);
  const own = String(nodes.indexOf(node));
  const ends = [...graph.querySelectorAll('.g-line')].map((line) => line.dataset.link.split(' '));
  const found = ends.filter((ends_) => ends_[forward ? 0 : 1] === own).map((ends_) => nodes[ends_[forward ? 1 : 0]]);
  const [, y] = placeOf(node);
  return found.sort((one, other) => Math.abs(placeOf(one)[1] - y) - Math.abs(placeOf(other)[1] - y));
}

function inColumn(graph, node, by) {
  const {column} = node.dataset;
  const nodes = nodesOf(graph)
    .filter((other) => other.dataset.column === column)
    .sort((one, other) => placeOf(one)[1] - placeOf(other)[1]);
  return nodes[nodes.indexOf(node) + by];
}

// Where no line leads on, the nearest node of the next column that has one.
function beside(graph, node, forward) {
  const column = Number(node.dataset.column) + (forward ? 1 : -1);
  const [, y] = placeOf(node);
  return linked(graph, node, forward)[0] ?? nodesOf(graph)
    .filter((other) => Number(other.dataset.column) === column)
    .sort((one, other) => Math.abs(placeOf(one)[1] - y) - Math.abs(placeOf(other)[1] - y))[0];
}

const moves = {
  ArrowRight: (graph, node) => beside(graph, node, true),
  ArrowLeft: (graph, node) => beside(graph, node, false),
  ArrowDown: (graph, node) => inColumn(graph, node, 1),
  ArrowUp: (graph, node) => inColumn(graph, node, -1),
  Home: (graph) => nodesOf(graph)[0],
  End: (graph) => nodesOf(graph).at(-1),
};
const zoomKeys = {'+': 'in', '=': 'in', '-': 'out', 0: 'fit'};

function onKey(graph, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const node = event.target.closest('.g-node');
  if (zoomKeys[event.key]) {
    zooms[zoomKeys[event.key]](graph);
  } else if (node && moves[event.key]) {
    const next = moves[event.key](graph, node);
    if (next) choose(graph, next);
    stopFollowing(graph);
  } else {
    if (moves[event.key]) stopFollowing(graph); // the view itself scrolls
    return;
  }
  event.preventDefault();
  event.stopPropagation();
}

// Fingers drag by themselves, for the view scrolls.
function onDown(graph, event) {
  if (event.pointerType === 'touch') return stopFollowing(graph);
  if (event.button) return;
  const view = viewOf(graph);
  const from = {x: event.clientX, y: event.clientY, left: view.scrollLeft, top: view.scrollTop};
  const move = ({clientX, clientY}) => {
    if (!graph.classList.contains('dragged') && Math.hypot(clientX - from.x, clientY - from.y) < DRAGGED) return;
    graph.classList.add('dragged');
    stopFollowing(graph);
    view.scrollTo(from.left + from.x - clientX, from.top + from.y - clientY);
  };
  const up = () => {
    removeEventListener('pointermove', move);
    // After the click that ends the drag, which no node gets.
    setTimeout(() => graph.classList.remove('dragged'));
  };
  addEventListener('pointermove', move);
  addEventListener('pointerup', up, {once: true});
  addEventListener('pointercancel', up, {once: true});
}

function onWheel(graph, event) {
  stopFollowing(graph);
  if (!event.ctrlKey) return;
  event.preventDefault();
  const view = viewOf(graph).getBoundingClientRect();
  const at = {x: event.clientX - view.left, y: event.clientY - view.top};
  zoomTo(graph, known.get(graph).scale * (event.deltaY < 0 ? STEP : 1 / STEP), at);
}

function onClick(graph, event) {
  const zoom = event.target.closest('[data-zoom]');
  if (zoom) {
    zooms[zoom.dataset.zoom](graph);
    stopFollowing(graph);
    return;
  }
  const button = event.target.closest('[data-graph-follow]');
  if (!button) return;
  button.setAttribute('aria-pressed', String(button.getAttribute('aria-pressed') !== 'true'));
  follow(graph);
}

function begin(graph) {
  known.set(graph, {scale: 1, key: null});
  const view = viewOf(graph);
  graph.addEventListener('keydown', (event) => onKey(graph, event));
  graph.addEventListener('click', (event) => onClick(graph, event));
  view.addEventListener('pointerdown', (event) => onDown(graph, event));
  view.addEventListener('dragstart', (event) => event.preventDefault()); // a link would be dragged away
  view.addEventListener('wheel', (event) => onWheel(graph, event), {passive: false});
  view.addEventListener('focusin', ({target}) => {
    const node = target.closest('.g-node');
    if (node && node.id !== known.get(graph).key) choose(graph, node, {focus: false});
  });
  const fits = scaleThatFits(graph);
  if (fits < 1 && fits >= READABLE) zoomTo(graph, fits);
  else markMovable(graph);
}

// After the page came, and after nodes of a graph were drawn again.
export function refresh(graph) {
  if (!known.has(graph)) begin(graph);
  const nodes = nodesOf(graph);
  const chosen = nodes.find((node) => node.id === known.get(graph).key) ?? nodes[0];
  for (const node of nodes) {
    if (node !== chosen && node.getAttribute('tabindex') !== '-1') node.setAttribute('tabindex', '-1');
  }
  if (chosen) choose(graph, chosen, {focus: false});
  follow(graph);
}

// What another picture of the same graph was looked at with: its zoom and its place.
export function lookLike(graph, former) {
  if (!known.has(graph)) begin(graph);
  const before = former && known.get(former);
  if (!before) return;
  known.get(graph).key = before.key;
  zoomTo(graph, before.scale);
}

const refreshAll = () => document.querySelectorAll('[data-graph]').forEach(refresh);
refreshAll();
document.body.addEventListener('htmx:afterSettle', refreshAll);
