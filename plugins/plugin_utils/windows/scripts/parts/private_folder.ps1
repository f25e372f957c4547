# part: private_folder
# A folder for what will run with all rights: only administrators and the system may change what is in it, or put another in its place.
function New-PrivateFolder {
    param([string]$Folder)
    # Well-known numbers: of the administrators and of the system, which have other names in other languages.
    $trusted = @('S-1-5-32-544', 'S-1-5-18')
    # Who may rename or delete a folder above could put one of his own in its place: GenericAll, TakeOwnership, ChangePermissions, Delete, DeleteSubdirectoriesAndFiles.
    $replacing = 0x10000000 -bor 0x80000 -bor 0x40000 -bor 0x10000 -bor 0x40
    $place = [System.IO.Path]::GetPathRoot($Folder)
    foreach ($part in $Folder.Substring($place.Length).Split([System.IO.Path]::DirectorySeparatorChar)) {
        $place = [System.IO.Path]::Combine($place, $part)
        if (-not (Test-Path -LiteralPath $place)) { New-OwnedFolder -Path $place }
        # Also those that were made here: somebody may have been faster.
        $rights = Read-FolderRights -Path $place
        if ($rights.leads_elsewhere) { throw "The folder $place leads elsewhere. Remove it." }
        if ($trusted -notcontains $rights.owner) { throw "The folder $place does not belong to the administrators. Remove it." }
        foreach ($rule in $rights.rules) {
            if ($rule.allows -and -not $rule.below_only -and $trusted -notcontains $rule.who -and ($rule.rights -band $replacing)) {
                throw "The folder $place may be replaced by others than administrators. Take away their rights, or remove it."
            }
        }
    }
    if (-not (Read-FolderRights -Path $Folder).protected) { throw "The folder $Folder was made by somebody else. Remove it." }
}
