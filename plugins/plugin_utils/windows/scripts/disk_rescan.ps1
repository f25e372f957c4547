# storlab: disk_rescan
Update-HostStorageCache
