-- The health of a SidecarSet of apps.kruise.io, for Argo CD.
--
-- A condition counts if it is about the present generation. Pillion's controllers write these:
--   InBundle                   whether new Pods get this version
--   PermissionCeilingExceeded  whether merged accounts lack permissions
--   Stalled, Ready, Reconciling  how far the rollout is; only with the controller sidecarset-rollout
-- OpenKruise's definition of SidecarSets drops conditions. Then the counters decide.

local status = obj.status or {}
local generation = obj.metadata.generation or 0
local strategy = obj.spec.updateStrategy or {}

local function answer(health, message)
  return { status = health, message = message }
end

-- Returns a condition of the present generation, and whether there is one of any generation.
local function condition(kind)
  for _, found in ipairs(status.conditions or {}) do
    if found.type == kind then
      if (found.observedGeneration or generation) >= generation then
        return found, true
      end
      return nil, true
    end
  end
  return nil, false
end

local function is(found, value)
  return found ~= nil and found.status == value
end

local function text(found)
  return (found.reason or "") .. ": " .. (found.message or "")
end

-- Returns how many Pods the partition keeps, or nil if it is no number and no percentage. Argo CD has no libraries for
-- strings and numbers here.
local function kept(matched)
  local partition = strategy.partition or 0
  for percent = 0, 100 do
    if partition == percent .. "%" then
      local share = percent * matched / 100
      local rest = share % 1
      if rest > 0 then
        share = share - rest + 1
      end
      -- A percentage below 100 leaves a Pod to try the new version on.
      if matched > 1 and share == matched and percent ~= 100 then
        share = share - 1
      end
      return share
    end
  end
  if type(partition) == "number" then
    return partition
  end
  return nil
end

local function by_counters()
  local matched, updated = status.matchedPods or 0, status.updatedPods or 0
  local ready = status.updatedReadyPods or 0
  if kept(matched) == nil then
    return answer("Degraded", "updateStrategy.partition is neither an integer nor a percentage from 0% to 100%")
  end
  local numbers = updated .. " of " .. matched .. " Pods are updated, " .. ready .. " of them are ready"
  if strategy.type == "NotUpdate" then
    return answer("Healthy", "updateStrategy.type is NotUpdate; " .. numbers)
  end
  if updated == matched and ready == matched then
    return answer("Healthy", numbers)
  end
  if strategy.paused then
    return answer("Suspended", "updateStrategy.paused is true; " .. numbers)
  end
  if updated == ready and updated < matched and matched - updated <= kept(matched) then
    return answer("Healthy", "updateStrategy.partition keeps the other Pods; " .. numbers)
  end
  -- The counters do not tell whether the selector selects further Pods.
  if strategy.selector ~= nil and updated == ready and updated > 0 then
    return answer("Suspended", "updateStrategy.selector selects the Pods that are updated; " .. numbers)
  end
  return answer("Progressing", numbers)
end

local bundled, has_bundled = condition("InBundle")
local stalled = condition("Stalled")
local exceeded = condition("PermissionCeilingExceeded")
local ready, has_ready = condition("Ready")
local reconciling = condition("Reconciling")

if is(stalled, "True") then
  return answer("Degraded", text(stalled))
end
if is(bundled, "False") then
  return answer("Degraded", text(bundled))
end
if is(exceeded, "True") then
  return answer("Degraded", text(exceeded))
end
if has_bundled and bundled == nil then
  return answer("Progressing", "new Pods do not get this generation yet")
end
if ready ~= nil then
  if is(ready, "True") then
    return answer("Healthy", text(ready))
  end
  if is(reconciling, "True") then
    return answer("Progressing", text(reconciling))
  end
  return answer("Suspended", text(ready))
end
if has_ready then
  return answer("Progressing", "no controller has looked at this generation yet")
end
if status.observedGeneration ~= nil then
  if status.observedGeneration < generation then
    return answer("Progressing", "no controller has looked at this generation yet")
  end
  return by_counters()
end
if bundled ~= nil then
  return answer("Healthy", text(bundled))
end
return answer("Progressing", "no controller has written a status yet")
