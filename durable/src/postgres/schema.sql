-- Durable timers in PostgreSQL: the tables, and every operation on them as a function. `install` runs all of this
-- to create the schema, and again to replace the functions. It puts the name of the schema in place of {tvec}, the
-- number of shards in place of {shards}, and settings in place of {by_index}: those functions find their rows by an
-- index, and their plans are not compiled, whatever the settings of the caller and the statistics are.
--
-- Times are milliseconds since 1970. Functions for programs in any language come last: everybody may execute them
-- who may use the schema. The others are for the processes that deliver.

create schema if not exists {tvec};

create table if not exists {tvec}.setting (
  one boolean primary key default true check (one),
  version int not null,
  shards int not null
);

-- A shard, and the process that owns it. `till` and `length` are the end and the length of its lease. `ahead`
-- tells how far ahead the owner takes timers, and `latest` is the time of the last renewal.
create table if not exists {tvec}.shard (
  n int primary key,
  owner text not null default '',
  epoch bigint not null default 0,
  till bigint not null default 0,
  length bigint not null default 0,
  ahead bigint not null default 60000,
  latest bigint not null default 0
) with (fillfactor = 50);

-- The processes that share the shards, and their leases.
create table if not exists {tvec}.process (
  name text primary key,
  till bigint not null,
  length bigint not null
) with (fillfactor = 50);

-- Timers and dead letters. `visible` is the time of the next claim: the deadline, or the end of the lease of a
-- claim, whose length is `length`: even if that is the lease of the claim, and odd if something has changed it. An
-- attempt after `ended` is open, `counted` if it is one of `spent`, and `taken` if a worker has taken one of the open
-- attempts by `next`.
-- A claim changes no column of an index, and finds room on its page: that halves its cost.
create table if not exists {tvec}.timer (
  id bytea primary key,
  shard int not null,
  due bigint not null,
  visible bigint not null,
  length bigint not null default 0,
  every bigint not null default 0,
  attempt bigint not null default 0,
  ended bigint not null default 0,
  spent bigint not null default 0,
  counted boolean not null default false,
  dead boolean not null default false,
  plan bytea not null default '',
  history bytea not null default '',
  verdict bytea not null default '',
  body bytea not null default ''
) with (autovacuum_vacuum_scale_factor = 0.02, fillfactor = 60);
alter table {tvec}.timer add column if not exists taken boolean not null default false;
-- A row holds what the readers of these functions can read, whoever writes it: one that they cannot read would stop the
-- others. Rows of an older version are not looked at.
alter table {tvec}.timer drop constraint if exists is_right;
alter table {tvec}.timer add constraint is_right check (octet_length(id) between 1 and 255
  and due between 0 and 253402300799999 and every between 0 and 253402300799999 and ended between 0 and attempt
  and attempt <= 4294967295 and spent between 0 and 4294967294 and visible between 0 and 1000000000000000
  and length between -1000000000000000 and 1000000000000000 and octet_length(body) <= 1048576) not valid;
create index if not exists timer_taken on {tvec}.timer (shard, due, id) where not dead;
create index if not exists timer_dead on {tvec}.timer (due, id) where dead;

-- The last attempt of timers that are gone: see note_gone. It is a sequence because transactions do not wait for each
-- other there.
create sequence if not exists {tvec}.gone minvalue 0 maxvalue 1073741823 cycle;

-- --- common ------------------------------------------------------------------------------------------------------

-- Returns the time in us.
create or replace function {tvec}.now_us() returns bigint language sql volatile as
$$ select (extract(epoch from clock_timestamp()) * 1000000)::bigint $$;

-- Returns true if a lease counts: it has not ended, and it ends within its length from now.
create or replace function {tvec}.holds(till bigint, length bigint, now bigint) returns boolean language sql immutable as
$$ select till > now and till - now <= length $$;

-- Returns the time of the next claim. An open claim counts for no longer than its length from now.
create or replace function {tvec}.claimable(t {tvec}.timer, now bigint) returns bigint language sql immutable as
$$ select case when t.attempt = t.ended then t.visible else least(t.visible, now + t.length) end $$;

-- Returns true if the last claim was granted since then, and nobody has shown to know of it.
create or replace function {tvec}.is_lost(t {tvec}.timer, since bigint, now bigint) returns boolean
language sql immutable as
$$ select t.attempt <> t.ended and not t.counted and t.length % 2 = 0 and t.visible - t.length + 1 >= since
   and t.visible - t.length <= now $$;

-- Returns the time of the next claim if claims since then were lost.
create or replace function {tvec}.claimable(t {tvec}.timer, now bigint, since bigint) returns bigint
language sql immutable as
$$ select case when {tvec}.is_lost(t, since, now) then t.due else {tvec}.claimable(t, now) end $$;

-- Returns how many attempts had no end, of those whose leases are over. A row of `ready` that comes again is an attempt,
-- and costs none if no worker has taken it.
create or replace function {tvec}.unended(t {tvec}.timer, now bigint) returns bigint language sql immutable as
$$ select case when t.attempt = t.ended then 0 when t.taken then t.spent + (not t.counted)::int
   else t.attempt - t.ended - ({tvec}.claimable(t, now) > now)::int end $$;

-- Returns the shard of an id: the first four bytes of its SHA-256, modulo the number of shards.
create or replace function {tvec}.shard_of(id bytea) returns int language sql immutable as
$$ select (('x' || left(encode(sha256(id), 'hex'), 8))::bit(32)::bigint % {shards})::int $$;

-- Returns the first beat of a period that lies after now.
create or replace function {tvec}.next_beat(due bigint, every bigint, now bigint) returns bigint language sql immutable as
$$ select case when greatest(now - due, 0) / every >= (253402300799999 - due) / every then 253402300799999
               else due + (greatest(now - due, 0) / every + 1) * every end $$;

-- Sends hints to the owners of shards, unless the owner is `me`. An owner learns of a timer that is due within
-- twice the time that it takes timers ahead: a transaction may stay open for that time once, and is found by the
-- next take. A payload is `due:id` of up to 15 timers, with ids in hexadecimal digits. Nobody is told while the
-- queue of notifications is half full: a full one would refuse the commit, and a sweep finds the timers.
create or replace function {tvec}.tell(me text, ids bytea[], dues bigint[]) returns void
language plpgsql set jit = off set enable_seqscan = on as $$
declare
  now bigint := {tvec}.now_us() / 1000;
begin
  if not exists (select from {tvec}.shard s where s.owner <> me and {tvec}.holds(s.till, s.length, now))
    or pg_notification_queue_usage() > 0.5 then
    return;
  end if;
  perform pg_notify(h.owner, string_agg(h.due || ':' || encode(h.id, 'hex'), ' '))
  from (select s.owner, a.due, a.id, row_number() over (partition by s.owner) / 15 as part
        from unnest(ids, dues) as a(id, due) join {tvec}.shard s on s.n = {tvec}.shard_of(a.id)
        where s.owner <> me and {tvec}.holds(s.till, s.length, now) and a.due <= now + 2 * s.ahead) h
  group by h.owner, h.part;
end $$;

-- Returns true if a plan has clauses of retries and no others: then `done` is the end of its timer.
create or replace function {tvec}.has_only_retries(plan bytea) returns boolean language sql immutable as
$$ select encode(plan, 'escape') ~ '^[ \t]*(retry|attempts)( [^|]*)?([|][ \t]*(retry|attempts)( [^|]*)?)*$' $$;

-- Notes the attempt of a timer that goes. A timer that is put begins after the last of them, so what a handler has of an
-- earlier timer of the id is stale. Of two numbers the later one is less than half of them all ahead. Each `nextval` goes
-- on from where others are by then. Those that are far ahead are set one at a time, so that the last one is the latest:
-- under a lock for this moment alone, which no transaction holds while it waits for something else.
create or replace function {tvec}.note_gone(attempt bigint) returns void language plpgsql set jit = off as $$
declare
  ahead bigint := (attempt - (select last_value from {tvec}.gone)) & 1073741823;
  lock_of_gone bigint := (x'74766563'::bigint << 32) + '{tvec}.gone'::regclass::oid::bigint;
begin
  if ahead between 100 and 536870911 then
    begin
      perform pg_advisory_lock(lock_of_gone);
      perform setval('{tvec}.gone', attempt & 1073741823) from {tvec}.gone g
      where (attempt - g.last_value) & 1073741823 between 1 and 536870911;
    exception when query_canceled or others then
      perform pg_advisory_unlock(lock_of_gone);
      raise;
    end;
    perform pg_advisory_unlock(lock_of_gone);
    return;
  end if;
  while ahead between 1 and 536870911 loop
    ahead := (attempt - nextval('{tvec}.gone')) & 1073741823;
  end loop;
end $$;

-- --- for processes that deliver ----------------------------------------------------------------------------------
-- Each function does many requests at once, with different ids. Rows of the answers begin with the number of the
-- request, from 1. If a request has several rows, the first one counts. None waits for a row that a transaction of
-- somebody else has locked, except puts, cancels, touches and revives.
-- Dead rows may be many, and statistics may say that there are none. A condition beside an id is `dead::int`, which no
-- partial index fits, and a join finds an id or a place for each request: no plan can walk over the dead rows.

-- Answers the version, the number of shards, and the time in us.
create or replace function {tvec}.opened() returns table (version int, shards int, us bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp set jit = off as
$$ select version, shards, {tvec}.now_us() from {tvec}.setting $$;

-- Stores timers whose ids are new. Returns how many.
drop function if exists {tvec}.stores(bytea, int[], bytea[], bigint[], bigint[], bytea[], bytea[]);
create or replace function {tvec}.stores(first_verdict bytea, last bigint, shards int[], ids bytea[], dues bigint[],
  everys bigint[], bodies bytea[], plans bytea[]) returns bigint
language plpgsql {by_index} as $$
declare
  number bigint;
begin
  insert into {tvec}.timer (id, shard, due, visible, every, attempt, ended, body, plan, verdict)
  select a.id, a.shard, a.due, a.due, a.every, last, last, a.body, a.plan, first_verdict
  from unnest(shards, ids, dues, everys, bodies, plans) as a(shard, id, due, every, body, plan)
  on conflict (id) do nothing;
  get diagnostics number = row_count;
  return number;
end $$;

-- Answers a letter for each: s stored, t there already, d dead. `how` is keep, replace, sooner or later.
create or replace function {tvec}.puts(me text, how text, first_verdict bytea, shards int[], ids bytea[], dues bigint[],
  everys bigint[], bodies bytea[], plans bytea[]) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp {by_index} as $$
declare
  stored bytea[];
  last bigint := (select last_value from {tvec}.gone);
  later bigint;
begin
  if how = 'keep' and cardinality(ids) = 1 then
    if {tvec}.stores(first_verdict, last, shards, ids, dues, everys, bodies, plans) = 1 then stored := ids; end if;
  elsif how = 'keep' then
    -- Most timers are new: the ids of those that were stored would cost a third more.
    begin
      if {tvec}.stores(first_verdict, last, shards, ids, dues, everys, bodies, plans) < cardinality(ids) then
        raise exception using errcode = 'TVEC1';
      end if;
      stored := ids;
    exception when sqlstate 'TVEC1' then
      with new as (
        insert into {tvec}.timer as t (id, shard, due, visible, every, attempt, ended, body, plan, verdict)
        select a.id, a.shard, a.due, a.due, a.every, last, last, a.body, a.plan, first_verdict
        from unnest(shards, ids, dues, everys, bodies, plans) as a(shard, id, due, every, body, plan)
        on conflict (id) do nothing returning t.id)
      select array_agg(id) into stored from new;
    end;
  else
    with new as (
      insert into {tvec}.timer as t (id, shard, due, visible, every, attempt, ended, body, plan, verdict)
      select a.id, a.shard, a.due, a.due, a.every, last, last, a.body, a.plan, first_verdict
      from unnest(shards, ids, dues, everys, bodies, plans) as a(shard, id, due, every, body, plan)
      on conflict (id) do update set
        due = excluded.due, visible = excluded.due, length = 0, every = excluded.every, body = excluded.body,
        plan = excluded.plan, verdict = excluded.verdict, history = '', dead = false,
        attempt = t.attempt + 1, ended = t.attempt + 1, spent = 0, counted = false, taken = false
      where how = 'replace' or not t.dead and
        (how = 'sooner' and excluded.due < t.due or how = 'later' and excluded.due > t.due)
      returning t.id)
    select array_agg(id) into stored from new;
  end if;
  -- An insert may have waited for the end of a transaction that has removed a timer of the id.
  select last_value into later from {tvec}.gone;
  if later <> last then
    update {tvec}.timer t set attempt = later, ended = later where t.id = any(stored) and t.attempt = last;
  end if;
  if cardinality(stored) = cardinality(ids) then
    perform {tvec}.tell(me, ids, dues);
    return repeat('s', cardinality(ids));
  end if;
  perform {tvec}.tell(me, array_agg(a.id), array_agg(a.due))
  from unnest(ids, dues) as a(id, due) join unnest(stored) as s(id) on s.id = a.id;
  return string_agg(case when s.id is not null then 's' when t.dead then 'd' else 't' end, '' order by a.n)
  from unnest(ids) with ordinality as a(id, n)
  left join unnest(stored) as s(id) on s.id = a.id
  left join lateral (select t.dead from {tvec}.timer t where t.id = a.id offset 0) t on true;
end $$;

-- Answers a row for each timer that was removed, and if it had begun: it had an open attempt, or was dead.
create or replace function {tvec}.cancels(ids bytea[]) returns table (n bigint, begun boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp {by_index} as $$
#variable_conflict use_column
begin
  return query
  with gone as (
    delete from {tvec}.timer t where t.id = any(ids)
    returning array_position(ids, t.id)::bigint as n, t.dead or t.attempt <> t.ended as begun, t.attempt),
  noted as materialized (select {tvec}.note_gone(max(g.attempt)) from gone g having count(*) > 0)
  select g.n, g.begun from gone g left join noted on true;
end $$;

-- Answers a row for each timer that waits for its new deadline now.
create or replace function {tvec}.touches(me text, ids bytea[], dues bigint[]) returns table (n bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp {by_index} as $$
#variable_conflict use_column
begin
  return query
  update {tvec}.timer t set due = dues[array_position(ids, t.id)], visible = dues[array_position(ids, t.id)], length = 0,
    attempt = t.attempt + 1, ended = t.attempt + 1, spent = 0, counted = false, taken = false, verdict = ''
  where t.id = any(ids) and t.dead::int = 0
  returning array_position(ids, t.id)::bigint;
  if found then perform {tvec}.tell(me, ids, dues); end if;
end $$;

-- Answers 1 if a dead letter waits again, and otherwise 0.
create or replace function {tvec}.revives(me text, who bytea, at bigint) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp {by_index} as $$
begin
  update {tvec}.timer t set due = at, visible = at, length = 0, dead = false, ended = t.attempt, spent = 0,
    counted = false, taken = false, history = '', verdict = '' where t.id = who and t.dead::int = 1;
  if not found then return 0; end if;
  perform {tvec}.tell(me, array[who], array[at]);
  return 1;
end $$;

-- Stores a dead letter. Answers 1, or 0 if its id is taken.
create or replace function {tvec}.buries(letter bytea, number int, at bigint, last bigint, rule bytea, past bytea, text bytea)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp {by_index} as $$
begin
  insert into {tvec}.timer (id, shard, due, visible, attempt, ended, dead, plan, history, body)
  values (letter, number, at, at, last, last, true, rule, past, text) on conflict (id) do nothing;
  return found::int;
end $$;

-- Ends deliveries, or extends their leases. `how` is done, again, failed, dead, removed, returned or extend, and
-- `due` is the next deadline, or the length of the new lease. Answers state and next deadline (null: none).
-- State 1: the attempt was the current one. State 2: another transaction has locked the timer, or has changed it since
-- the statement began: ask again. No row: the attempt is over.
create or replace function {tvec}.ends(me text, ids bytea[], attempts bigint[], hows text[], dues bigint[],
  reasons bytea[], histories bytea[]) returns table (n bigint, state int, due bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp {by_index} as $$
#variable_conflict use_column
declare
  now bigint := {tvec}.now_us() / 1000;
  answered bigint;
begin
  return query
  with open as materialized (
    select t.place, a.n, a.id, a.how, a.due as given, a.reason, a.history, t.every, t.plan,
      a.how = 'removed' or a.how = 'done' and t.every = 0 and (t.plan = '' or {tvec}.has_only_retries(t.plan)) as goes,
      case when a.how = 'again' then a.due
           when a.how = 'done' and t.every <> 0 and t.plan = '' then {tvec}.next_beat(t.due, t.every, now)
           else t.due end as due
    from unnest(ids, attempts, hows, dues, reasons, histories) with ordinality
      as a(id, attempt, how, due, reason, history, n)
    cross join lateral (
      select t.ctid as place, t.due, t.every, t.plan from {tvec}.timer t
      where t.id = a.id and t.attempt = a.attempt and t.attempt <> t.ended and t.dead::int = 0
      for update skip locked) t),
  gone as (
    delete from {tvec}.timer t using open o where t.ctid = o.place and o.goes returning o.n, t.attempt),
  noted as materialized (select {tvec}.note_gone(max(g.attempt)) from gone g having count(*) > 0),
  kept as (
    update {tvec}.timer t set
      due = o.due,
      visible = case o.how when 'extend' then now + o.given else o.due end,
      length = case o.how when 'extend' then o.given | 1 else t.length | 1 end,
      ended = case when o.how = 'extend' or o.how = 'returned' and t.attempt <> t.ended + 1 then t.ended
                   else t.attempt end,
      spent = case o.how when 'extend' then t.spent when 'returned' then t.spent - t.counted::int else 0 end,
      counted = t.counted and o.how = 'extend',
      taken = t.taken and o.how in ('extend', 'returned'),
      dead = o.how = 'dead',
      verdict = case when o.how in ('returned', 'extend') then t.verdict
                     when o.how = 'failed' then 'failed '::bytea || o.reason
                     when o.how = 'done' and o.plan <> '' then 'done'::bytea
                     else ''::bytea end,
      history = case when o.how = 'done' and o.plan = ''
                     then ('0 0 ' || greatest(o.due - o.every, 0) || '+' || least(o.due, o.every) || ' 0 ')::bytea
                     else coalesce(o.history, t.history) end
    from open o where t.ctid = o.place and not o.goes
    returning o.n, o.id, case when o.how not in ('dead', 'extend') then t.due end as due),
  told as materialized (
    select {tvec}.tell(me, array_agg(k.id), array_agg(k.due)) from kept k where k.due is not null)
  select g.n, 1, null::bigint from gone g left join noted on true
  union all select k.n, 1, k.due from kept k left join told on true;
  get diagnostics answered = row_count;
  if answered = cardinality(ids) then return; end if;
  return query
  select a.n, 2, null::bigint from unnest(ids, attempts) with ordinality as a(id, attempt, n)
  cross join lateral (
    select from {tvec}.timer t
    where t.id = a.id and t.attempt = a.attempt and t.attempt <> t.ended and t.dead::int = 0 offset 0) t;
end $$;

-- Counts attempts as spent. Answers as `ends`. State 3: another process owns the shard.
create or replace function {tvec}.spends(shards int[], epochs bigint[], ids bytea[], attempts bigint[])
returns table (n bigint, state int)
language plpgsql security definer
set search_path = pg_catalog, pg_temp {by_index} as $$
#variable_conflict use_column
begin
  return query
  with open as materialized (
    select a.n, t.place from unnest(shards, epochs, ids, attempts) with ordinality as a(shard, epoch, id, attempt, n)
    join {tvec}.shard s on s.n = a.shard and s.epoch = a.epoch
    cross join lateral (
      select t.ctid as place from {tvec}.timer t
      where t.id = a.id and t.attempt = a.attempt and t.attempt <> t.ended and t.dead::int = 0
      for update skip locked) t)
  update {tvec}.timer t set spent = t.spent + (not t.counted)::int, counted = true
  from open o where t.ctid = o.place returning o.n, 1;
  return query
  select a.n, case when s.epoch <> a.epoch then 3 else 2 end
  from unnest(shards, epochs, ids, attempts) with ordinality as a(shard, epoch, id, attempt, n)
  join {tvec}.shard s on s.n = a.shard
  left join lateral (
    select t.id from {tvec}.timer t
    where t.id = a.id and t.attempt = a.attempt and t.attempt <> t.ended and t.dead::int = 0 offset 0) t on true
  where s.epoch <> a.epoch or t.id is not null;
end $$;

-- Claims timers for `term`. Requests with the same op belong together: the bodies of an op that are granted are
-- about `room`. Claims since `since` had no answer, and none is granted after `last`. The first row has number 0 and the
-- time in us as its deadline. States: 1 granted, 2 early (due is the time to claim it), 3 later: not done, because of
-- `room` or `last`, 4: another process owns the shard. No row: gone. A timer that another transaction has locked or just
-- changed is early by `pause`.
drop function if exists {tvec}.claims(bigint, bigint, bigint, bigint, bigint, bigint[], int[], bigint[], bytea[]);
create or replace function {tvec}.claims(term bigint, early_by bigint, room bigint, pause bigint,
  since bigint, last bigint, ops bigint[], shards int[], epochs bigint[], ids bytea[])
returns table (n bigint, state int, due bigint, every bigint, attempt bigint, ended bigint, spent bigint, body bytea,
  plan bytea, history bytea, verdict bytea)
language plpgsql security definer
set search_path = pg_catalog, pg_temp {by_index} as $$
#variable_conflict use_column
declare
  us bigint := {tvec}.now_us();
  now bigint := us / 1000;
  answered bigint;
begin
  return query select 0::bigint, 0, us, null::bigint, null::bigint, null::bigint, null::bigint, null::bytea,
    null::bytea, null::bytea, null::bytea;
  return query
  with ready as materialized (
    select a.n, a.op, t.* from unnest(ops, shards, epochs, ids) with ordinality as a(op, shard, epoch, id, n)
    join {tvec}.shard s on s.n = a.shard and s.epoch = a.epoch
    cross join lateral (
      select octet_length(t.body) as size, t.ctid as place, (not {tvec}.is_lost(t, since, now))::int as is_new,
        greatest(now, {tvec}.claimable(t, now, since)) + term as till
      from {tvec}.timer t
      where t.id = a.id and t.shard = a.shard and t.dead::int = 0 and {tvec}.claimable(t, now, since) <= now + early_by
      for update skip locked) t),
  decided as materialized (
    select r.*, sum(r.size) over (partition by r.op order by r.n) - r.size < greatest(room, 1)
      and now <= last as fits
    from ready r),
  claimed as (
    update {tvec}.timer t set attempt = least(t.attempt + d.is_new, 4294967295), counted = false, visible = d.till,
      length = d.till - now + (d.till - now & 1)
    from decided d where t.ctid = d.place and d.fits
    returning d.n, 1, t.due, t.every, t.attempt, t.ended, t.spent, t.body, t.plan, t.history, t.verdict)
  select * from claimed
  union all select d.n, 3, null, null, null, null, null, null, null, null, null from decided d where not d.fits;
  get diagnostics answered = row_count;
  if answered = cardinality(ids) then return; end if;
  return query
  select a.n, case when s.epoch <> a.epoch then 4 else 2 end,
    greatest(t.claimable, now + early_by + pause), null::bigint, null::bigint, null::bigint, null::bigint,
    null::bytea, null::bytea, null::bytea, null::bytea
  from unnest(shards, epochs, ids) with ordinality as a(shard, epoch, id, n)
  join {tvec}.shard s on s.n = a.shard
  left join lateral (
    select t.id, {tvec}.claimable(t, now, since) as claimable from {tvec}.timer t
    where t.id = a.id and t.shard = a.shard and t.dead::int = 0 offset 0) t on true
  where s.epoch <> a.epoch or t.id is not null;
end $$;

-- Answers the places of shards that follow (after, after_id), in order. Leaves out timers whose claim has a lease
-- beyond `till`. The first row has number 0 and the time in us. A row without an id: another process owns the shard.
create or replace function {tvec}.takes(shards int[], epochs bigint[], afters bigint[], after_ids bytea[],
  untils bigint[], limits bigint[]) returns table (n bigint, due bigint, id bytea)
language plpgsql security definer set search_path = pg_catalog, pg_temp {by_index} as $$
#variable_conflict use_column
declare
  us bigint := {tvec}.now_us();
  now bigint := us / 1000;
begin
  update {tvec}.shard s set ahead = a.till - now from unnest(shards, epochs, untils) as a(shard, epoch, till)
  where s.n = a.shard and s.epoch = a.epoch and s.ahead < a.till - now;
  return query select 0::bigint, us, null::bytea;
  return query
  select a.n, t.due, t.id
  from unnest(shards, epochs, afters, after_ids, untils, limits) with ordinality
    as a(shard, epoch, after, after_id, till, most, n)
  join {tvec}.shard s on s.n = a.shard and s.epoch = a.epoch
  cross join lateral (
    select t.due, t.id from {tvec}.timer t
    where t.shard = a.shard and not t.dead and (t.due, t.id) > (a.after, a.after_id) and t.due <= a.till
      and {tvec}.claimable(t, now) <= a.till
    order by t.due, t.id limit a.most) t
  union all
  select a.n, 0, null from unnest(shards, epochs) with ordinality as a(shard, epoch, n)
  join {tvec}.shard s on s.n = a.shard and s.epoch <> a.epoch;
end $$;

-- Enters a process among the others for `stay` (null: does not), and acquires shards or renews their leases.
-- Answers pairs: -1 and the time in us, -2 and the number of processes, -3 and 1 if a power cut may lose
-- transactions, -4 and 1 if it may lose everything, -5 and 1 if notifications are not sent (see `tell`), -6 and the
-- number of processes with other terms, and each shard and its epoch. Epoch 0: another owns the shard.
create or replace function {tvec}.beat(me text, stay bigint, numbers int[], leases bigint[])
returns table (what int, value bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp {by_index} as $$
#variable_conflict use_column
declare
  us bigint := {tvec}.now_us();
  now bigint := us / 1000;
  mine boolean;
  s record;
begin
  return query values (-1, us), (-3, (current_setting('synchronous_commit') = 'off')::int::bigint),
    (-4, (current_setting('fsync') = 'off')::int::bigint), (-5, (pg_notification_queue_usage() > 0.5)::int::bigint);
  if stay is not null then
    delete from {tvec}.process p where p.name in (
      select o.name from {tvec}.process o where not {tvec}.holds(o.till, o.length, now) for update skip locked);
    insert into {tvec}.process as p (name, till, length) values (me, now + stay, stay)
      on conflict (name) do update set till = excluded.till, length = excluded.length;
    return query select -2, count(*) from {tvec}.process p where {tvec}.holds(p.till, p.length, now);
  end if;
  if position('-' in me) > 0 then  -- behind it stand the terms of a process
    return query select -6, count(*) from {tvec}.process p where {tvec}.holds(p.till, p.length, now) and
      split_part(p.name, '-', 2) not in ('', split_part(me, '-', 2));
  end if;
  for s in
    select h.*, a.lease
    from (select * from unnest(numbers, leases) as x(number, lease) order by x.number) a
    cross join lateral (
      select * from {tvec}.shard h where h.n = a.number and (h.owner = me or not {tvec}.holds(h.till, h.length, now))
      for update) h
  loop
    mine := s.owner = me and {tvec}.holds(s.till, s.length, now);
    -- The clock was set back: no claim counts for longer than its length from now.
    if now < s.latest then
      update {tvec}.timer t set visible = now + t.length, length = t.length | 1 where t.shard = s.n and not t.dead and
        t.attempt <> t.ended and t.visible > now + t.length;
    end if;
    update {tvec}.shard h set owner = me, till = now + s.lease, length = s.lease, latest = now,
      epoch = h.epoch + (not mine)::int, ahead = case when mine then h.ahead else 60000 end
    where h.n = s.n;
    return query select s.n, s.epoch + (not mine)::int;
  end loop;
end $$;

-- Releases a shard.
create or replace function {tvec}.releases(number int, mine bigint) returns void
language sql security definer set search_path = pg_catalog, pg_temp {by_index} as
$$ update {tvec}.shard s set till = 0 where s.n = number and s.epoch = mine $$;

-- A process leaves the others.
create or replace function {tvec}.leaves(me text) returns void
language sql security definer set search_path = pg_catalog, pg_temp {by_index} as
$$ delete from {tvec}.process p where p.name = me $$;

-- Answers the timer of an id that is not dead, or no row.
create or replace function {tvec}.finds(who bytea) returns table (id bytea, due bigint, every bigint, attempt bigint,
  ended bigint, spent bigint, body bytea, plan bytea, history bytea, verdict bytea)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp {by_index} as $$
begin
  return query select t.id, t.due, t.every, t.attempt, t.ended, t.spent, t.body, t.plan, t.history, t.verdict
  from {tvec}.timer t where t.id = who and t.dead::int = 0;
end $$;

-- Answers the timers that follow (after, after_id) in the order of deadlines, and whose ids begin with `prefix`.
create or replace function {tvec}.lists(is_dead int, after bigint, after_id bytea, most bigint, prefix bytea)
returns table (id bytea, due bigint, every bigint, attempt bigint, ended bigint, spent bigint, body bytea, plan bytea,
  history bytea, verdict bytea)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp {by_index} as $$
#variable_conflict use_column
begin
  return query
  select t.id, t.due, t.every, t.attempt, t.ended, t.spent, t.body, t.plan, t.history, t.verdict
  from {tvec}.timer t where is_dead <> 0 and t.dead and (t.due, t.id) > (after, after_id)
    and substring(t.id from 1 for octet_length(prefix)) = prefix
  order by t.due, t.id limit most;
  return query
  select t.id, t.due, t.every, t.attempt, t.ended, t.spent, t.body, t.plan, t.history, t.verdict
  from {tvec}.shard s cross join lateral (
    select * from {tvec}.timer t where t.shard = s.n and not t.dead and (t.due, t.id) > (after, after_id)
      and substring(t.id from 1 for octet_length(prefix)) = prefix
    order by t.due, t.id limit most) t
  where is_dead = 0 order by t.due, t.id limit most;
end $$;

-- Answers the numbers of waiting timers and of dead letters.
create or replace function {tvec}.counts() returns table (waiting bigint, dead bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp set jit = off as
$$ select count(*) filter (where not t.dead), count(*) filter (where t.dead) from {tvec}.timer t $$;

-- --- for programs in any language --------------------------------------------------------------------------------

-- Throws an error if an argument is out of range.
create or replace function {tvec}.require(holds boolean, what text, is_expected text) returns void
language plpgsql as $$
begin
  if holds is not true then
    raise exception using errcode = '22023', message = what || ': expected ' || is_expected;
  end if;
end $$;

create or replace function {tvec}.require_id(what text, id bytea) returns void language sql as $$
  select {tvec}.require(octet_length(id) between 1 and 255, what || ': the id has ' ||
    coalesce(octet_length(id) || ' bytes', 'no value'), '1 to 255 bytes')
$$;

-- Returns a deadline in ms, rounded up: no timer comes early.
create or replace function {tvec}.ms_of(what text, due timestamptz) returns bigint language plpgsql as $$
begin
  perform {tvec}.require(due >= 'epoch' and due <= '9999-12-31 23:59:59.999+00',
    what || ': the deadline is ' || coalesce(due::text, 'null'), 'a time from 1970 to 9999');
  return ceil(extract(epoch from due) * 1000)::bigint;
end $$;

create or replace function {tvec}.put(id bytea, due timestamptz, body bytea default '', every interval default null,
  existing text default 'keep', plan text default '') returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp {by_index} as $$
#variable_conflict use_variable
declare
  size bigint := octet_length(put.body);
  period numeric := coalesce(extract(epoch from put.every), 0) * 1000;
  rule bytea := convert_to(coalesce(put.plan, ''), 'UTF8');
  moment bigint;
begin
  perform {tvec}.require_id('put', put.id);
  perform {tvec}.require(size <= 1048576, 'put: the body has ' || coalesce(size || ' bytes', 'no value'),
    'at most 1048576 bytes');
  perform {tvec}.require(octet_length(rule) <= 1000, 'put: the plan has ' || octet_length(rule) || ' bytes',
    'at most 1000 bytes');
  perform {tvec}.require(put.existing in ('keep', 'replace', 'sooner', 'later'),
    'put: existing is ' || coalesce(put.existing, 'null'), 'keep, replace, sooner or later');
  perform {tvec}.require(put.due is not null or rule <> '', 'put: the deadline is null and there is no plan',
    'a deadline, or a plan that decides it');
  perform {tvec}.require(put.due is not null or put.existing in ('keep', 'replace'),
    'put: the deadline is null and existing is ' || put.existing, 'keep or replace');
  moment := {tvec}.ms_of('put', coalesce(put.due, clock_timestamp()));
  perform {tvec}.require(period >= 0 and period <= 253402300799999 - moment and trunc(period) = period and
    coalesce(extract(year from put.every), 0) = 0 and coalesce(extract(month from put.every), 0) = 0,
    'put: the period is ' || coalesce(put.every::text, 'null'),
    'whole milliseconds, not negative, without months, at most to the end of 9999');
  return case {tvec}.puts('', put.existing, case when put.due is null then 'first'::bytea else ''::bytea end,
      array[{tvec}.shard_of(put.id)], array[put.id], array[moment], array[period::bigint], array[put.body], array[rule])
    when 's' then 'stored' when 't' then 'there_already' else 'dead' end;
end $$;

create or replace function {tvec}.cancel(id bytea) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
declare
  had_begun boolean;
begin
  perform {tvec}.require_id('cancel', cancel.id);
  select c.begun into had_begun from {tvec}.cancels(array[cancel.id]) c;
  return case when not found then 'unknown_id' when had_begun then 'had_begun' else 'cancelled' end;
end $$;

create or replace function {tvec}.touch(id bytea, due timestamptz) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
begin
  perform {tvec}.require_id('touch', touch.id);
  perform from {tvec}.touches('', array[touch.id], array[{tvec}.ms_of('touch', touch.due)]);
  return case when found then 'touched' else 'unknown_id' end;
end $$;

create or replace function {tvec}.find(id bytea) returns table (due timestamptz, body bytea, every interval, plan text,
  attempt bigint, is_being_delivered boolean)
language sql stable security definer set search_path = pg_catalog, pg_temp {by_index} as $$
  select to_timestamp(t.due / 1000) + make_interval(secs => t.due % 1000 / 1000.0), t.body,
    make_interval(secs => t.every / 1000.0), convert_from(t.plan, 'UTF8'), t.attempt, t.attempt <> t.ended
  from {tvec}.timer t where t.id = find.id and t.dead::int = 0
$$;

-- Ends one delivery. Waits for transactions that have locked the timer.
create or replace function {tvec}.end_one(what text, who bytea, which bigint, given bigint, reason bytea) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp {by_index} as $$
begin
  perform {tvec}.require_id(what, who);
  perform {tvec}.require(which between 1 and 4294967295, what || ': the attempt is ' || coalesce(which::text, 'null'),
    'the attempt of a delivery');
  perform from {tvec}.timer t where t.id = who for update;
  perform from {tvec}.ends('', array[who], array[which], array[what], array[given], array[reason],
    array[null::bytea]) e where e.state = 1;
  return case when found then 'ok' else 'stale' end;
end $$;

create or replace function {tvec}.done(id bytea, attempt bigint) returns text
language sql security definer set search_path = pg_catalog, pg_temp set jit = off as
$$ select {tvec}.end_one('done', id, attempt, 0, '') $$;

create or replace function {tvec}.again(id bytea, attempt bigint, due timestamptz) returns text
language sql security definer set search_path = pg_catalog, pg_temp set jit = off as
$$ select {tvec}.end_one('again', id, attempt, {tvec}.ms_of('again', due), '') $$;

create or replace function {tvec}.failed(id bytea, attempt bigint, reason text) returns text
language sql security definer set search_path = pg_catalog, pg_temp set jit = off as
$$ select {tvec}.end_one('failed', id, attempt, 0,
     substring(convert_to(coalesce(reason, ''), 'UTF8') from 1 for 500)) $$;

create or replace function {tvec}.extend(id bytea, attempt bigint, lease interval) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
declare
  length numeric := extract(epoch from lease) * 1000;
begin
  perform {tvec}.require(length between 1 and 86400000000, 'extend: the lease is ' || coalesce(lease::text, 'null'),
    '1 ms to 1000 days');
  return {tvec}.end_one('extend', id, attempt, length::bigint, '');
end $$;

-- The same for ids and bodies that are text: their bytes are those of UTF-8. A body of bytes may have an id of text.
create or replace function {tvec}.put(id text, due timestamptz, body text default '', every interval default null,
  existing text default 'keep', plan text default '') returns text language sql as
$$ select {tvec}.put(pg_catalog.convert_to(id, 'UTF8'), due, pg_catalog.convert_to(body, 'UTF8'), every, existing, plan) $$;
-- A text id beside a body of bytes. Without it the id would be read as bytes in the escape format.
create or replace function {tvec}.put(id text, due timestamptz, body bytea, every interval default null,
  existing text default 'keep', plan text default '') returns text language sql as
$$ select {tvec}.put(pg_catalog.convert_to(id, 'UTF8'), due, body, every, existing, plan) $$;
create or replace function {tvec}.cancel(id text) returns text language sql as
$$ select {tvec}.cancel(pg_catalog.convert_to(id, 'UTF8')) $$;
create or replace function {tvec}.touch(id text, due timestamptz) returns text language sql as
$$ select {tvec}.touch(pg_catalog.convert_to(id, 'UTF8'), due) $$;
create or replace function {tvec}.find(id text) returns table (due timestamptz, body bytea, every interval, plan text,
  attempt bigint, is_being_delivered boolean) language sql stable as
$$ select * from {tvec}.find(pg_catalog.convert_to(id, 'UTF8')) $$;
create or replace function {tvec}.done(id text, attempt bigint) returns text language sql as
$$ select {tvec}.done(pg_catalog.convert_to(id, 'UTF8'), attempt) $$;
create or replace function {tvec}.again(id text, attempt bigint, due timestamptz) returns text language sql as
$$ select {tvec}.again(pg_catalog.convert_to(id, 'UTF8'), attempt, due) $$;
create or replace function {tvec}.failed(id text, attempt bigint, reason text) returns text language sql as
$$ select {tvec}.failed(pg_catalog.convert_to(id, 'UTF8'), attempt, reason) $$;
create or replace function {tvec}.extend(id text, attempt bigint, lease interval) returns text language sql as
$$ select {tvec}.extend(pg_catalog.convert_to(id, 'UTF8'), attempt, lease) $$;

-- --- deliveries for workers ----------------------------------------------------------------------------------------

-- Deliveries that wait for a worker, in their order. The timer has the rest. A delivery is `alone` if a worker has had
-- the timer before, and did not end it. A crash of the server empties the table: the deliveries come again when their
-- leases end.
create unlogged table if not exists {tvec}.ready (
  n bigint primary key generated always as identity,
  id bytea not null,
  attempt bigint not null
) with (autovacuum_vacuum_scale_factor = 0.02);
alter table {tvec}.ready add column if not exists alone boolean not null default false;
alter table {tvec}.ready add column if not exists due bigint not null default 0;
create index if not exists ready_by_id on {tvec}.ready (id);

-- No row of `ready` has a lower number than this one. While somebody's long transaction keeps dead rows, nobody walks
-- over those that lie below. It is a sequence because that has no dead rows of its own.
create sequence if not exists {tvec}.ready_from;
drop sequence if exists {tvec}.takes;

-- Adds deliveries, removes earlier ones of the same timers, whose leases nobody has extended, and wakes workers
-- that listen. Answers how many wait then. One call at a time, so that rows are committed in the order of their numbers.
-- After a crash of the server the numbers may begin anew.
drop function if exists {tvec}.make_ready(bytea[], bigint[]);
create function {tvec}.make_ready(ids bytea[], attempts bigint[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp {by_index} as $$
declare
  bound bigint;
  first bigint;
  oldest bigint;
  there bigint;
begin
  perform from {tvec}.setting for update;
  with earlier as materialized (
    select r.place from unnest(ids) as a(id) cross join lateral (
      select r.ctid as place from {tvec}.ready r where r.id = a.id for update skip locked) r)
  delete from {tvec}.ready r using earlier e where r.ctid = e.place;
  with new as (
    insert into {tvec}.ready (id, attempt, alone, due)
    select a.id, a.attempt, coalesce(t.taken, false), coalesce(t.due, 0) from unnest(ids, attempts) as a(id, attempt)
    left join lateral (select t.taken, t.due from {tvec}.timer t where t.id = a.id offset 0) t on true returning n)
  select min(n) into first from new;
  if first is not null and pg_notification_queue_usage() <= 0.5 then
    perform pg_notify(trim(both '"' from '{tvec}') || '_ready', '');
  end if;
  select last_value into bound from {tvec}.ready_from;
  select r.n into oldest from {tvec}.ready r where r.n >= least(bound, first) order by r.n limit 1;
  if oldest <> bound then perform setval('{tvec}.ready_from', oldest); end if;
  select count(*) into there from {tvec}.ready r where r.n >= oldest;
  return there;
end $$;

-- Returns true if a transaction is in progress: the last 32 bits of its number, or 0 for none.
create or replace function {tvec}.is_open(number bigint) returns boolean language sql stable as $$
  select number <> 0 and ((number - pg_snapshot_xmax(s)::text::bigint) & 4294967295 < 2147483648 or exists (
    select from pg_snapshot_xip(s) x where x::text::bigint & 4294967295 = number))
  from pg_current_snapshot() s
$$;

-- Answers deliveries that no worker has taken, after a number: at most so many, with their numbers.
create or replace function {tvec}.shows_ready(after bigint, most bigint) returns table (n bigint, id bytea, attempt bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp {by_index} as $$
#variable_conflict use_column
declare
  bound bigint;
begin
  select last_value into bound from {tvec}.ready_from;
  return query
  select r.n, r.id, r.attempt from {tvec}.ready r
  where r.n > greatest(after, bound - 1) and not {tvec}.is_open(r.xmax::text::bigint) order by r.n limit most;
end $$;

-- Answers timers that are due and have no attempt under way, and whose ids begin with `prefix`: of each shard, and of
-- `ready`, the one that waits longest. In a shard these were not claimed, or their leases have ended, or `most_unended`
-- attempts of them had no end; those of `ready` no worker has taken. Looks at the first thousand of each shard. If there
-- are so many and none has the prefix, answers the first of them. A row of `ready` that an open transaction has deleted
-- is with a worker. While somebody has locked `ready` nobody waits for it.
drop function if exists {tvec}.oldest(bytea);
create or replace function {tvec}.oldest(prefix bytea, most_unended bigint)
returns table (id bytea, due bigint, since bigint, waits int, unended bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp {by_index} as $$
#variable_conflict use_column
declare
  now bigint := {tvec}.now_us() / 1000;
  bound bigint;
  seen int;
  fits boolean;
  s record;
  t record;
begin
  waits := 0;
  for s in select h.n from {tvec}.shard h loop
    fits := null;
    seen := 0;
    -- Each waits since its deadline, or since later on, so none is before one that waits since its deadline.
    for t in
      select t.id, t.due, {tvec}.unended(t, now) as unended,
        case when {tvec}.unended(t, now) < most_unended then {tvec}.claimable(t, now) else t.due end as since,
        substring(t.id from 1 for octet_length(prefix)) = prefix as fits
      from {tvec}.timer t
      where t.shard = s.n and not t.dead and t.due <= now
        and ({tvec}.claimable(t, now) <= now or {tvec}.unended(t, now) >= most_unended)
      order by t.due, t.id limit 1000
    loop
      seen := seen + 1;
      if fits is null or t.fits and (not fits or (t.since, t.id) < (since, id)) then
        id := t.id;
        due := t.due;
        since := t.since;
        unended := t.unended;
        fits := t.fits;
      end if;
      exit when t.fits and t.since = t.due;
    end loop;
    if fits or seen = 1000 then return next; end if;
  end loop;
  begin
    lock table {tvec}.ready in access share mode nowait;
  exception when lock_not_available then
    return;
  end;
  select last_value into bound from {tvec}.ready_from;
  return query
  select r.id, t.due, t.due, 1, t.unended from (
    select r.id, r.attempt, r.due from {tvec}.ready r
    where r.n >= bound and substring(r.id from 1 for octet_length(prefix)) = prefix and r.due <= now
      and not {tvec}.is_open(r.xmax::text::bigint)
    order by r.due, r.id) r
  cross join lateral (
    select t.due, {tvec}.unended(t, now) as unended from {tvec}.timer t
    where t.id = r.id and t.attempt = r.attempt and t.attempt <> t.ended and t.dead::int = 0 offset 0) t
  order by r.due, r.id limit 1;
end $$;

-- Takes at most so many deliveries, for which the leases begin anew. Those that are over are removed. A worker that
-- rolls back has taken nothing. The worker that had a delivery before may have died of it: such a delivery comes
-- alone, and its attempt is spent. A timer that somebody has locked stays for the next call.
-- One statement locks, and the next one sees where the rows are then: somebody may have changed them meanwhile.
drop function if exists {tvec}.next(int);
create or replace function {tvec}.next(most int default 1, prefix bytea default '')
returns table (id bytea, attempt bigint, due timestamptz, body bytea)
language plpgsql security definer set search_path = pg_catalog, pg_temp {by_index}
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  now bigint := {tvec}.now_us() / 1000;
  head record;
  lines tid[];
  numbers bigint[];
  places tid[];
  bound bigint;
  taken bigint := 0;
begin
  perform {tvec}.require(most between 1 and 10000, 'next: the number is ' || coalesce(most::text, 'null'), '1 to 10000');
  perform {tvec}.require(prefix is not null, 'next: the prefix is null', 'the first bytes of ids');
  select last_value into bound from {tvec}.ready_from;
  while taken = 0 loop
    select r.n, r.alone into head from {tvec}.ready r
    where r.n >= bound and substring(r.id from 1 for octet_length(prefix)) = prefix
    order by r.n limit 1 for update skip locked;
    exit when not found;
    with waits as materialized (
      select r.ctid as line, r.n, r.id, r.attempt from {tvec}.ready r
      where r.n >= head.n and r.alone = head.alone and substring(r.id from 1 for octet_length(prefix)) = prefix
      order by r.n limit case when head.alone then 1 else most end for update skip locked)
    select array_agg(w.line), array_agg(w.n), array_agg(t.place) into lines, numbers, places
    from waits w left join lateral (
      select t.ctid as place from {tvec}.timer t
      where t.id = w.id and t.attempt = w.attempt and t.attempt <> t.ended and t.dead::int = 0
      for update skip locked) t on true;
    return query
    with begun as (
      update {tvec}.timer t set visible = now + t.length, length = t.length | 1, taken = true,
        spent = t.spent + (head.alone and not t.counted)::int, counted = t.counted or head.alone
      from unnest(places, numbers) as h(place, n) where t.ctid = h.place
      returning h.n, t.id, t.attempt, t.due, t.body),
    gone as (
      delete from {tvec}.ready r using unnest(lines, places) as w(line, place)
      where r.ctid = w.line and (w.place is not null or not exists (
        select from {tvec}.timer t
        where t.id = r.id and t.attempt = r.attempt and t.attempt <> t.ended and t.dead::int = 0)))
    select b.id, b.attempt, to_timestamp(b.due / 1000) + make_interval(secs => b.due % 1000 / 1000.0), b.body
    from begun b order by b.n;
    get diagnostics taken = row_count;
    bound := head.n + 1;
  end loop;
end $$;

create or replace function {tvec}.next(most int, prefix text)
returns table (id bytea, attempt bigint, due timestamptz, body bytea) language sql set jit = off as
$$ select * from {tvec}.next(most, pg_catalog.convert_to(prefix, 'UTF8')) $$;

-- --- rights ------------------------------------------------------------------------------------------------------

revoke execute on all functions in schema {tvec} from public;
grant execute on function
  {tvec}.put(bytea, timestamptz, bytea, interval, text, text), {tvec}.put(text, timestamptz, text, interval, text, text),
  {tvec}.put(text, timestamptz, bytea, interval, text, text),
  {tvec}.cancel(bytea), {tvec}.cancel(text), {tvec}.touch(bytea, timestamptz), {tvec}.touch(text, timestamptz),
  {tvec}.find(bytea), {tvec}.find(text), {tvec}.done(bytea, bigint), {tvec}.done(text, bigint),
  {tvec}.again(bytea, bigint, timestamptz), {tvec}.again(text, bigint, timestamptz),
  {tvec}.failed(bytea, bigint, text), {tvec}.failed(text, bigint, text),
  {tvec}.extend(bytea, bigint, interval), {tvec}.extend(text, bigint, interval), {tvec}.next(int, bytea),
  {tvec}.next(int, text) to public;
