// Search runs in a worker, which browsers refuse to start for pages from the disk
// (file://). There this class takes the place of Worker: the script runs in a hidden
// frame. Material's search looks for the name IFrameWorker, and takes its own address
// from the first script of the frame that has one.
"use strict"

class IFrameWorker extends EventTarget {
  constructor(address) {
    super()
    const frame = document.createElement("iframe")
    frame.hidden = true
    document.body.append(frame)
    this.frame = frame
    this.ready = new Promise(resolve => frame.addEventListener("ready", resolve))
    this.onmessage = null
    window.addEventListener("message", event => {
      if (event.source !== frame.contentWindow) return
      event.stopImmediatePropagation()
      const message = new MessageEvent("message", { data: event.data })
      this.dispatchEvent(message)
      if (this.onmessage) this.onmessage(message)
    })
    const page = frame.contentDocument
    page.open()
    page.write(`<!DOCTYPE html><body><script>
      window.deliver = window.postMessage.bind(window)
      window.postMessage = message => parent.postMessage(message, "*")
      window.importScripts = (...addresses) => addresses.reduce(
        (before, address) => before.then(() => new Promise((resolve, reject) => {
          const script = document.createElement("script")
          script.src = address
          script.onload = resolve
          script.onerror = reject
          document.body.append(script)
        })), Promise.resolve())
      <\/script><script src="${new URL(address, document.baseURI).href}"><\/script>
      <script>frameElement.dispatchEvent(new Event("ready"))<\/script></body>`)
    page.close()
  }

  postMessage(message) {
    this.ready.then(() => this.frame.contentWindow.deliver(message, "*"))
  }

  terminate() {
    this.frame.remove()
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker
  window.Worker = IFrameWorker
}
