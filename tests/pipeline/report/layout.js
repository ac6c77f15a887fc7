// Functions that find cut texts and overlapping labels of a page in a frame.
const visible = (element) =>
  element.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true })
  && !element.closest(".full, .visually-hidden, .skip, svg, script, style");
const describe = (element) =>
  `${element.tagName}.${element.className}: ${element.textContent.trim().slice(0, 60)}`;

// Elements whose content is wider than they are, and texts outside of the window or of
// an element that clips them.
const cutTexts = () => {
  const found = [];
  const width = page.documentElement.clientWidth;
  if (page.documentElement.scrollWidth > width) found.push("the page scrolls sideways");
  for (const element of page.body.querySelectorAll("*")) {
    if (!visible(element) || element.clientWidth === 0) continue;
    if (view.getComputedStyle(element).display === "inline") continue;
    if (element.scrollWidth > element.clientWidth + 1) {
      found.push(`${describe(element)} ${element.scrollWidth} > ${element.clientWidth}`);
    }
  }
  const walker = page.createTreeWalker(page.body, view.NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.textContent.trim() || !visible(node.parentElement)) continue;
    const range = page.createRange();
    range.selectNodeContents(node);
    let [left, right] = [0, width];
    for (let each = node.parentElement; each; each = each.parentElement) {
      const style = view.getComputedStyle(each);
      if (style.overflowX !== "visible" && style.display !== "inline") {
        const box = each.getBoundingClientRect();
        [left, right] = [Math.max(left, box.left), Math.min(right, box.right)];
      }
    }
    for (const box of range.getClientRects()) {
      if (box.left < left - 1 || box.right > right + 1) {
        found.push(`${describe(node.parentElement)} at ${box.left} to ${box.right}`);
        break;
      }
    }
  }
  return found;
};

// Pairs of labels that cover each other.
const overlaps = () => {
  const found = [];
  const compare = (elements) => {
    const boxes = elements.filter(visible).map((each) =>
      [each, each.getBoundingClientRect()]).filter(([, box]) => box.width && box.height);
    boxes.forEach(([one, a], index) => {
      for (const [other, b] of boxes.slice(index + 1)) {
        const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (x > 1 && y > 1) found.push(`${describe(one)} and ${describe(other)}`);
      }
    });
  };
  const families = ".axis, .scale, .legend, .lane, .lanes, .plot, .tiles, .tile, nav ul, "
    + ".attention, .top, .cards, .command, summary, tr, main, .controls";
  for (const parent of page.querySelectorAll(families)) compare([...parent.children]);
  return found;
};
const resize = async (width) => {
  view.frameElement.style.width = `${width}px`;
  await new Promise((done) => setTimeout(done, 50));
};
const unfoldAll = () => {
  for (const each of page.querySelectorAll("details")) {
    each.removeAttribute("name");
    each.open = true;
  }
};
