// An executor with the handlers that every client of these tests offers; see ../README.md.
'use strict'

const { appendFileSync } = require('node:fs')
const { setTimeout: sleep } = require('node:timers/promises')
const express = require('express')
const { createXxlJobExecutor } = require('xxl-job-nodejs') // by `import` it does not load since Node 20

const setting = (name) => process.env[`INTEROP_${name}`]
const [admin] = setting('ADMINS').split(',') // it knows one admin only

// The library lets a registration that fails end the process: an admin's restart would end every executor.
process.on('unhandledRejection', (error) => console.error(`not handled: ${error}`))
process.chdir(setting('LOGS')) // the library writes below ./logs

const killed = new Set()

function record(event, handler, { logId, executorParams }) {
  if (setting('RECORD'))
    appendFileSync(setting('RECORD'), `${event} ${logId} ${handler} ${executorParams}\n`)
}

const handlers = {
  async succeed(logger, request, parameter) {
    logger.info(`first line: ${parameter}`)
    logger.info(`second line: ${parameter}`)
  },
  async fail(logger) {
    logger.info('about to fail')
    throw new Error('failed on purpose')
  },
  async slow(logger, request, parameter) {
    const end = Date.now() + Number(parameter) * 1000
    killed.delete(request.jobId)
    for (let line = 1; Date.now() < end; line++) {
      logger.info(`line ${line}`)
      await sleep(200)
      if (killed.has(request.jobId))
        throw new Error('stopped')
    }
  },
  async shard(logger, request) {
    logger.info(`shard ${request.broadcastIndex} of ${request.broadcastTotal}`)
  },
  async echo(logger, request, parameter) {
    return parameter
  },
  async file() {},
}

const recorded = ([name, body]) => [
  name,
  async (logger, request, parameter) => {
    record('start', name, request)
    try {
      const message = await body(logger, request, parameter)
      record('end', name, request)
      return message
    }
    catch (error) {
      record('stop', name, request)
      throw error
    }
  },
]

const app = express()
app.use(express.json())
const executor = createXxlJobExecutor({
  app,
  baseUrl: `http://${setting('HOST')}:${setting('PORT')}`,
  accessToken: setting('TOKEN'),
  executorKey: setting('APP'),
  scheduleCenterUrl: admin,
  logStorage: 'local',
  jobHandlers: new Map(Object.entries(handlers).map(recorded)),
})
executor.eventEmitter.on('jobKilled', ({ id }) => killed.add(id))
process.on('SIGTERM', async () => {
  await executor.cancel()
  process.exit(0)
})
app.listen(Number(setting('PORT')), setting('HOST'), async () => {
  await executor.initialization()
  console.log('interop ready')
})
